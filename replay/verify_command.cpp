// msda-replay verify: every dataset's digest, computed anew.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

#include "replay/commands.h"
#include "replay/errors.h"
#include "replay/options.h"

namespace msda::replay {
namespace {

int run(const Options& options) {
  const capture::Reader reader = open_capture(options.capture);
  nlohmann::ordered_json json = {
      {"capture", options.capture}, {"datasets", 0}, {"damaged", nlohmann::ordered_json::array()}};
  std::vector<std::string> damaged;
  int64_t count = 0;
  for (const capture::TensorInfo& dataset : reader.datasets()) {
    ++count;
    std::string why;
    try {
      const std::string digest = reader.digest_of(dataset);
      if (dataset.digest.empty()) {
        why = "has no digest to verify";
      } else if (digest != dataset.digest) {
        why = fmt::format("is damaged: its digest is {}, it was written with {}", digest, dataset.digest);
      }
    } catch (const capture::Error& e) {
      why = fmt::format("cannot be read: {}", e.what());
    }
    if (why.empty()) continue;
    damaged.push_back(fmt::format("{} {}", dataset.path, why));
    json["damaged"].push_back({{"dataset", dataset.path}, {"why", why}});
  }
  for (const int64_t id : reader.invocation_ids()) reader.invocation(id);  // shapes and types
  json["datasets"] = count;
  if (!options.json.empty()) write_json(options, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!damaged.empty()) {
    std::string message = fmt::format("{}: {} of {} datasets damaged", options.capture, damaged.size(), count);
    for (const std::string& line : damaged) message += "\n  " + line;
    throw BadInput(message);
  }
  if (options.json != "-" && !options.quiet)
    fmt::print("{}: {} datasets, every digest is right\n", options.capture, count);
  return kWithinTolerance;
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Check every dataset against its digest");
  add_capture(*command, *options);
  add_json(*command, *options);
  command->add_flag("--quiet", options->quiet, "Print nothing if all is right");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
