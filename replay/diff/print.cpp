#include "replay/diff/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <utility>

#include "analysis/finding.h"

namespace msda::replay {
namespace {

// What the text shows of each section.
constexpr size_t kMostShown = 12;

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

Json difference_json(const Difference& difference) {
  nlohmann::ordered_json json;
  if (difference.invocations) json["invocations"] = {difference.invocations->first, difference.invocations->second};
  json["section"] = difference.section;
  json["name"] = difference.name;
  json["a"] = difference.a;
  json["b"] = difference.b;
  if (!difference.elements) return json;
  const auto& [different, total, first, max_abs, max_ulp] = *difference.elements;
  json["elements"] = {{"different", different}, {"total", total}, {"first", first}};
  if (max_abs) json["elements"]["max_abs"] = analysis::number(*max_abs);
  if (max_ulp) json["elements"]["max_ulp"] = *max_ulp;
  return json;
}

}  // namespace

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

Json differences_json(const std::string& a, const std::string& b, const Differences& differences) {
  Json json = {
      {"a", a},
      {"b", b},
      {"equal", differences.are_none()},
      {"first", Json()},
      {"differences", Json::array()},
      {"same_numbers", differences.same_numbers()},
      {"notes", Json::array()},
      {"compared",
       {{"invocations", differences.invocations}, {"tensors", differences.tensors}, {"facts", differences.facts}}},
      {"only_a", differences.only_a},
      {"only_b", differences.only_b}};
  for (const auto& one : differences.found) json["differences"].push_back(difference_json(one));
  for (const auto& one : differences.notes) json["notes"].push_back(difference_json(one));
  if (!differences.found.empty()) json["first"] = json["differences"].front();
  return json;
}

}  // namespace msda::replay
