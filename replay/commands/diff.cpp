// msda-replay diff: what differs between two captures or invocations, the first divergence first.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "recorder/text/numbers.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/calls/loaded_call.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/diff/differences.h"
#include "replay/diff/slices.h"

namespace msda::replay {
namespace {

struct DiffOptions : Options {
  std::string a, b;
  bool slices = false;
};

// What the text shows of each section.
constexpr size_t kMostShown = 12;

// "FILE" or "FILE:INVOCATION".
struct Named {
  std::string file;
  std::optional<int64_t> invocation;
};

Named named_by(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text, std::nullopt};
  const auto number = text::parse_number<int64_t>(std::string_view(text).substr(colon + 1));
  if (!number) return {text, std::nullopt};
  return {text.substr(0, colon), number};
}

std::vector<int64_t> ids_of(const Named& named, const capture::IsolatedReader& reader) {
  if (!named.invocation) return reader.invocation_ids();
  return {*named.invocation};
}

// One invocation for --slices: the only one of a capture, or the named one.
LoadedCall call_for_slices(const DiffOptions& options, const Operand& operand) {
  if (operand.ids.size() != 1) {
    const std::string name = operand.ids.empty() ? "" : fmt::format(": name one, as FILE:{}", operand.ids.front());
    throw BadInput(fmt::format("{}: has {} invocations, and --slices compares one{}", operand.reader.path(),
                               operand.ids.size(), name));
  }
  capture::Invocation invocation = operand.reader.invocation(operand.ids.front());
  if (const std::string why = why_not_replayed(operand.reader, invocation); !why.empty()) {
    throw Unavailable(fmt::format("{}: invocation {} cannot be sliced: {}", operand.reader.path(), invocation.id, why));
  }
  Options of_one = options;
  of_one.capture = operand.reader.path();  // for messages
  return LoadedCall(of_one, operand.reader, invocation);
}

Json batches_json(const std::vector<ReplayedBatches>& all) {
  Json json = Json::array();
  for (const auto& [mode, batches, different] : all) {
    json.push_back({{"mode", mode}, {"batches", batches}, {"different", different}});
  }
  return json;
}

Json compare_slices(const DiffOptions& options, const Operand& a, const Operand& b) {
  const LoadedCall of_a = call_for_slices(options, a), of_b = call_for_slices(options, b);
  const auto threads = static_cast<int>(options.threads);
  Json json = {{"equal_batches", Json::array()}};
  for (const auto& one : equal_batches(of_a.call(), of_a.recorded(), of_b.call(), of_b.recorded())) {
    Json gradients = Json::array();
    for (const auto& [tensor, different, total] : one.gradients) {
      gradients.push_back({{"tensor", tensor}, {"different", different}, {"total", total}});
    }
    json["equal_batches"].push_back({{"a", one.a}, {"b", one.b}, {"gradients", gradients}});
  }
  json["replayed_a"] = batches_json(replay_batches(of_a.call(), of_a.recorded(), options.seed, threads));
  json["replayed_b"] = batches_json(replay_batches(of_b.call(), of_b.recorded(), options.seed, threads));
  return json;
}

// Whether a batch that both recorded has other bits. Replays of mode atomic differ by their nature, and decide nothing.
bool slices_differ(const Json& slices) {
  for (const Json& pair : slices["equal_batches"]) {
    for (const Json& gradient : pair["gradients"]) {
      if (gradient["different"] != 0) return true;
    }
  }
  for (const char* which : {"replayed_a", "replayed_b"}) {
    for (const Json& replay : slices[which]) {
      if (replay["mode"] == "deterministic" && !replay["different"].empty()) return true;
    }
  }
  return false;
}

std::string shown(const std::string& text) { return text.empty() ? "(not there)" : text; }

std::string where(const Difference& one) {
  if (!one.invocations) return one.section;
  const auto [a, b] = *one.invocations;
  const std::string ids = a == b ? fmt::format("invocation {}", a) : fmt::format("invocations {} and {}", a, b);
  return fmt::format("{}, {}", ids, one.section);
}

void add_difference(Lines& lines, const Difference& one) {
  if (!one.elements) {
    lines.add("    {}: {} | {}", one.name, shown(one.a), shown(one.b));
    return;
  }
  const auto& elements = *one.elements;
  std::string how = fmt::format("{} of {} elements have other bits, the first at [{}]", elements.different,
                                elements.total, fmt::join(elements.first, ","));
  if (elements.max_abs) how += fmt::format("; at most {:.9g} apart", *elements.max_abs);
  if (elements.max_ulp && *elements.max_ulp < 100'000) how += fmt::format(", {} ULP", *elements.max_ulp);
  lines.add("    {}: {}", one.name, how);
}

void add_slices(Lines& lines, const Json& slices) {
  lines.add("  slices");
  if (slices["equal_batches"].empty()) lines.add("    no batch of B has the inputs of one of A");
  for (const Json& pair : slices["equal_batches"]) {
    std::string how;
    for (const Json& gradient : pair["gradients"]) {
      how += fmt::format(
          "{}{}: {}", how.empty() ? "" : "; ", gradient["tensor"].get<std::string>(),
          gradient["different"] == 0
              ? "the same bits"
              : fmt::format("{} of {} elements differ", gradient["different"].dump(), gradient["total"].dump()));
    }
    lines.add("    batch {} of A is batch {} of B; recorded {}", pair["a"].dump(), pair["b"].dump(),
              how.empty() ? "no gradients" : how);
  }
  for (const auto& [key, name] : {std::pair{"replayed_a", "A"}, {"replayed_b", "B"}}) {
    for (const Json& replay : slices[key]) {
      lines.add("    {} replayed, mode {}: {} of {} batches have other bits alone", name,
                replay["mode"].get<std::string>(), replay["different"].size(), replay["batches"].dump());
    }
  }
}

Lines differences_text(const Differences& differences, const Json& json, bool quiet) {
  Lines lines;
  if (differences.found.empty() && json["equal"].get<bool>()) {
    lines.add("Equal: {} invocations, {} tensors, {} facts", differences.invocations, differences.tensors,
              differences.facts);
  } else if (!differences.found.empty()) {
    const Difference& first = differences.found.front();
    const std::string numbers =
        differences.same_numbers() ? fmt::format(", with the same numbers in {} tensors", differences.tensors) : "";
    lines.add("Different{}; the first divergence is in {}: {}", numbers, where(first), first.name);
  } else {
    lines.add("Different");
  }
  if (quiet) return lines;
  std::string section;
  size_t shown_here = 0;
  for (const Difference& one : differences.found) {
    if (where(one) != section) {
      section = where(one);
      shown_here = 0;
      lines.add("  {}", section);
    }
    if (++shown_here <= kMostShown) add_difference(lines, one);
    if (shown_here == kMostShown + 1) lines.add("    ... and more; --json has all");
  }
  for (const auto& [ids, name] : {std::pair{&differences.only_a, "A"}, {&differences.only_b, "B"}}) {
    if (!ids->empty()) lines.add("  only in {}: {} invocations, from {} on", name, ids->size(), ids->front());
  }
  if (!differences.notes.empty()) lines.add("  what decides no number");
  for (const Difference& one : differences.notes) add_difference(lines, one);
  if (json.contains("slices")) add_slices(lines, json["slices"]);
  return lines;
}

int run_diff(const DiffOptions& options) {
  const Named name_a = named_by(options.a), name_b = named_by(options.b);
  const Progress progress(!options.quiet);
  progress.show("diff: reading");
  const capture::IsolatedReader reader_a(name_a.file), reader_b(name_b.file);
  const Operand a{reader_a, ids_of(name_a, reader_a)}, b{reader_b, ids_of(name_b, reader_b)};
  const Differences differences = find_differences(a, b);
  bool equal = differences.found.empty() && differences.only_a.empty() && differences.only_b.empty();
  Json json = {
      {"a", options.a},
      {"b", options.b},
      {"equal", equal},
      {"first", Json()},
      {"differences", Json::array()},
      {"same_numbers", differences.same_numbers()},
      {"notes", Json::array()},
      {"compared",
       {{"invocations", differences.invocations}, {"tensors", differences.tensors}, {"facts", differences.facts}}},
      {"only_a", differences.only_a},
      {"only_b", differences.only_b}};
  for (const auto& one : differences.found) json["differences"].push_back(to_json(one));
  for (const auto& one : differences.notes) json["notes"].push_back(to_json(one));
  if (!differences.found.empty()) json["first"] = json["differences"].front();
  if (options.slices) {
    json["slices"] = compare_slices(options, a, b);
    // Calls of other sizes differ in everything: what is asked is whether their common batches do.
    equal = !slices_differ(json["slices"]);
    json["equal"] = equal;
  }
  progress.show("");
  if (options.json != "-") print(differences_text(differences, json, options.quiet));
  if (!options.json.empty()) write_json(options.json, json);
  return equal ? 0 : kDrift;
}

}  // namespace

void add_diff_command(CLI::App& app, int& status) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two captures, or two invocations: the first divergence first");
  command->add_option("A", options->a, "Capture file, or FILE:INVOCATION")->required();
  command->add_option("B", options->b, "The same, to compare with")->required();
  command->add_flag("--slices", options->slices,
                    "Compare batches of equal inputs instead, and replay every batch alone: batch invariance");
  add_seed(*command, options->seed, "Seed of the order of the atomic replays of --slices");
  add_count(*command, "--threads", options->threads, "CPU threads; 0 is one a core");
  command->add_flag("--damaged", options->damaged, "Continue with data that do not match their digests");
  add_json(*command, *options);
  command->add_flag("--quiet", options->quiet, "Print the first line only");
  add_operator(*command);
  command->callback([options, &status] { status = run_diff(*options); });
}

}  // namespace msda::replay
