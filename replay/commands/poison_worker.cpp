// msda-replay relaunch-poisoned: what `run --poison` starts, to launch a recorded kernel in another process.
#include <CLI/CLI.hpp>

#include <memory>

#include "replay/calls/damage.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/original/original.h"
#include "replay/original/poison_runs.h"

namespace msda::replay {
namespace {

struct WorkerOptions : Options {
  size_t first = 0;  // setting
};

int run_poison_worker(const WorkerOptions& options) {
  PoisonReport report;
  try {
    const capture::IsolatedReader reader(options.capture);
    const auto ids = chosen_invocations(options, reader);
    Original original(options, reader);
    original.run_poisoned(reader.invocation(ids.front()), options.first, report);
  } catch (const std::exception& e) {
    report.fail(e.what());
  }
  return 0;
}

}  // namespace

void add_poison_worker_command(CLI::App& app, int& status) {
  auto options = std::make_shared<WorkerOptions>();
  CLI::App* command = app.add_subcommand("relaunch-poisoned", "Started by run --poison");
  command->group("");  // not shown by --help
  add_capture(*command, *options);
  add_invocation(*command, *options);
  command->add_option("--first", options->first, "Begin with this setting");
  command->add_option("--repeat", options->repeat, "Launches in each setting");
  command->add_option("--device", options->device, "As run's");
  command->add_option("--block", options->block, "As run's");
  command->add_option("--kernel-digest", options->kernel_digest, "As run's");
  command->callback([options, &status] {
    options->poison = true;
    status = run_poison_worker(*options);
  });
}

}  // namespace msda::replay
