// msda-replay verify: checks that everything is as it was written.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>

#include "replay/base/errors.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/many/many.h"

namespace msda::replay {
namespace {

nlohmann::ordered_json verification_json(const std::string& capture, const capture::Verification& found) {
  nlohmann::ordered_json json = {{"capture", capture},
                                 {"datasets", found.datasets},
                                 {"objects", found.objects},
                                 {"has_list_of_contents", found.has_list},
                                 {"damaged", nlohmann::ordered_json::array()}};
  for (const auto& [object, why] : found.differences) json["damaged"].push_back({{"object", object}, {"why", why}});
  return json;
}

std::string damage_text(const std::string& capture, const capture::Verification& found) {
  std::set<std::string> damaged;
  for (const auto& [object, why] : found.differences) damaged.insert(object);
  return fmt::format("{}: {} of {} objects damaged; read a copy of it, or record again", capture, damaged.size(),
                     found.objects);
}

Outcome verification_outcome(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  const capture::Verification found = reader.verify();
  Outcome outcome = {{"capture", options.capture}, {"status", kWithinTolerance}};
  outcome.update(verification_json(options.capture, found));
  if (!found.differences.empty()) {
    outcome["status"] = kBadInput;
    outcome["error"] = damage_text(options.capture, found);
  }
  return outcome;
}

void report_verifications(const Options& options, const std::vector<Outcome>& outcomes) {
  int64_t good = 0, unlisted = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.contains("error")) print_error(outcome["error"].get<std::string>());
    for (const auto& difference : outcome.value("damaged", nlohmann::ordered_json::array())) {
      print_error(fmt::format("  {} {}", difference["object"], difference["why"]));
    }
    good += !outcome.contains("error");
    unlisted += !outcome.contains("error") && !outcome["has_list_of_contents"].get<bool>();
  }
  if (!options.json.empty()) write_json(options.json, "verify", {{"captures", outcomes}});
  if (options.json == "-" || options.quiet) return;
  Lines lines;
  lines.add("{} of {} captures: every digest is right", good, outcomes.size());
  if (unlisted > 0) lines.add("  {} have no list of contents: their attributes are not checked", unlisted);
  print(lines);
}

int verify_one(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  const capture::Verification found = reader.verify();
  if (!options.json.empty()) write_json(options.json, "verify", verification_json(options.capture, found));
  if (!found.differences.empty()) {
    print_error(damage_text(options.capture, found));
    for (const auto& [object, why] : found.differences) print_error(fmt::format("  {} {}", object, why));
    return kBadInput;
  }
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

int run_verify(Options& options) {
  const Ranks ranks;
  if (takes_many(options, ranks)) {
    return over_captures(options, ranks, verification_outcome,
                         [&](const auto& outcomes) { report_verifications(options, outcomes); });
  }
  options.capture = options.captures.front();
  return verify_one(options);
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  const auto [command, options] =
      new_command<Options>(app, status, "verify", "Check that a capture is as it was written", run_verify);
  add_captures(command, options);
  add_json(command, options);
  command.add_flag("--quiet", options.quiet, "Print nothing if there is no damage");
  command.footer("Exit status: 0 no damage, 2 damage, bad usage or bad input.");
}

}  // namespace msda::replay
