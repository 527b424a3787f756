// msda-replay verify: checks that everything is as it was written.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <set>

#include "replay/base/errors.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"

namespace msda::replay {
namespace {

nlohmann::ordered_json json_of(const std::string& capture, const capture::Verification& found) {
  nlohmann::ordered_json json = {{"capture", capture},
                                 {"datasets", found.datasets},
                                 {"objects", found.objects},
                                 {"has_list_of_contents", found.has_list},
                                 {"damaged", nlohmann::ordered_json::array()}};
  for (const auto& [object, why] : found.differences) json["damaged"].push_back({{"object", object}, {"why", why}});
  return json;
}

int run(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  const capture::Verification found = reader.verify();
  if (!options.json.empty()) write_json(options.json, json_of(options.capture, found));
  std::set<std::string> damaged;
  for (const auto& [object, why] : found.differences) damaged.insert(object);
  if (!damaged.empty()) {
    print_error(fmt::format("{}: {} of {} objects damaged; read a copy of it, or record again", options.capture,
                            damaged.size(), found.objects));
    for (const auto& [object, why] : found.differences) print_error(fmt::format("  {} {}", object, why));
    return kBadInput;
  }
  reader.check_invocations();  // shapes and types
  if (options.json == "-" || options.quiet) return kWithinTolerance;
  Lines lines;
  lines.add("{}: {} datasets, every digest is right{}", options.capture, found.datasets,
            found.has_list ? fmt::format("; all {} objects are as they were written", found.objects) : "");
  if (!found.has_list) {
    lines.add(
        "  It has no list of contents (its recorder was killed, or is older than the list): attributes, and "
        "objects that are missing, are not checked.");
  }
  print(lines);
  return kWithinTolerance;
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Check that a capture is as it was written");
  add_capture(*command, *options);
  add_json(*command, *options);
  command->add_flag("--quiet", options->quiet, "Print nothing if there is no damage");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
