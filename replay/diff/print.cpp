#include "replay/diff/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/causes/finding.h"
#include "recorder/text/demangle.h"
#include "recorder/text/words.h"
#include "replay/diff/advice.h"
#include "replay/survey/kernel_name.h"
#include "replay/survey/verdict.h"

namespace msda::replay {
namespace {

using text::counted;

// Which sections the text shows.
constexpr size_t kMostShown = 12;

std::string shown(const std::string& text) { return text.empty() ? "(not there)" : text; }

std::string where_of_call(const Difference& difference) {
  const auto [a, b] = *difference.invocations;
  return a == b ? fmt::format("invocation {}", a) : fmt::format("invocations {} and {}", a, b);
}

std::string where(const Difference& difference) {
  if (!difference.invocations) return difference.section;
  return fmt::format("{}, {}", where_of_call(difference), difference.section);
}

// Returns what the invocation is: "aten::index_put, Sequential.0, train.py:12 forward". Empty if nothing is known of
// it.
std::string call_of(const Difference& difference) {
  constexpr size_t kColumns = 50;
  std::vector<std::string> known;
  if (!difference.kernel.empty()) known.push_back(short_name(text::demangled(difference.kernel), kColumns));
  for (const std::string* text : {&difference.label, &difference.source_line}) {
    if (!text->empty()) known.push_back(*text);
  }
  return fmt::format("{}", fmt::join(known, ", "));
}

void add_difference(Lines& lines, const Difference& difference) {
  if (!difference.elements) {
    lines.add("    {}: {} | {}", difference.name, shown(difference.a), shown(difference.b));
    return;
  }
  const auto& elements = *difference.elements;
  std::string how = fmt::format("{} of {} elements have other bits, the first at [{}]", elements.different,
                                elements.total, fmt::join(elements.first, ","));
  if (elements.max_abs) how += fmt::format("; at most {:.9g} apart", *elements.max_abs);
  if (elements.max_ulp && *elements.max_ulp < 100'000) how += fmt::format(", {} ULP", *elements.max_ulp);
  lines.add("    {}: {}", difference.name, how);
}

void add_slices(Lines& lines, const Json& slices) {
  lines.add("  slices");
  if (slices["equal_batches"].empty()) lines.add("    no batch of B has the inputs of one of A");
  for (const Json& pair : slices["equal_batches"]) {
    std::string how;
    for (const Json& gradient : pair["gradients"]) {
      how += fmt::format("{}{}: {}", how.empty() ? "" : "; ", gradient["tensor"],
                         gradient["different"] == 0
                             ? "the same bits"
                             : fmt::format("{} of {} elements differ", gradient["different"], gradient["total"]));
    }
    lines.add("    batch {} of A is batch {} of B; recorded {}", pair["a"], pair["b"],
              how.empty() ? "no gradients" : how);
  }
  for (const auto& [key, name] : {std::pair{"replayed_a", "A"}, {"replayed_b", "B"}}) {
    for (const Json& replay : slices[key]) {
      lines.add("    {} replayed, mode {}: {} of {} batches have other bits alone", name, replay["mode"],
                replay["different"].size(), replay["batches"]);
    }
  }
}

// Notes of many invocations that say the same, merged into one.
struct Grouped {
  const Difference* first;
  int64_t pairs = 1;
};

std::vector<Grouped> grouped(const std::vector<const Difference*>& notes) {
  std::vector<Grouped> groups;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> places;
  for (const Difference* difference : notes) {
    const auto [at, is_new] =
        places.emplace(std::tuple(difference->section, difference->name, difference->a, difference->b), groups.size());
    if (is_new) {
      groups.push_back({difference});
    } else {
      ++groups[at->second].pairs;
    }
  }
  return groups;
}

void add_notes(Lines& lines, const std::string& title, const std::vector<const Difference*>& notes) {
  if (notes.empty()) return;
  lines.add("  {}", title);
  const auto groups = grouped(notes);
  for (const auto& [first, pairs] : std::span(groups).first(std::min(groups.size(), kMostShown))) {
    Difference difference = *first;
    difference.name = fmt::format("{}, {}", where(difference), difference.name);
    if (pairs > 1) difference.name += fmt::format(", and so in {} more", pairs - 1);
    add_difference(lines, difference);
  }
  if (groups.size() > kMostShown) lines.add("    ... and more; --json has all");
}

// Notes that may decide numbers, before the first divergence and after it; and notes that decide none. Where a call
// with equal inputs is the first that differs, a seed is not why: it would show in the inputs.
struct SortedNotes {
  std::vector<const Difference*> before, after, others;
};

SortedNotes sorted_notes(const Differences& differences) {
  SortedNotes sorted;
  const Difference* first = differences.found.empty() ? nullptr : &differences.found.front();
  for (const Difference& difference : differences.notes) {
    const bool is_of_inputs = difference.section == "seeds" && first != nullptr && first->section == "outputs";
    const bool is_later = first != nullptr && (is_of_inputs || difference.invocations > first->invocations);
    (!difference.may_decide ? sorted.others : is_later ? sorted.after : sorted.before).push_back(&difference);
  }
  return sorted;
}

// Names the calls that do not only follow from the first one.
void add_that_vary(Lines& lines, const Differences& differences) {
  constexpr size_t kMostNamed = 4;
  auto calls = calls_that_vary(differences);
  std::erase_if(calls, [&](const auto* call) { return call->invocations == differences.found.front().invocations; });
  const size_t named = std::min(calls.size(), kMostNamed);
  for (const Difference* first : std::span(calls).first(named)) {
    const std::string call = call_of(*first);
    lines.add("  {}{} varies by itself, too: its inputs are equal", where_of_call(*first),
              call.empty() ? "" : fmt::format(", {},", call));
  }
  if (calls.size() > named) {
    lines.add("  {} more vary by themselves; --json has all", counted(calls.size() - named, "invocation"));
  }
}

// Shows two calls that differ: what comes after the first one mostly follows from it.
void add_found(Lines& lines, const Differences& differences) {
  constexpr size_t kMostCalls = 2;
  std::string section;
  size_t shown_here = 0;
  std::set<std::pair<int64_t, int64_t>> calls;
  for (const Difference& difference : differences.found) {
    if (difference.invocations) calls.insert(*difference.invocations);
    if (calls.size() > kMostCalls) continue;
    if (where(difference) != section) {
      section = where(difference);
      shown_here = 0;
      const std::string call = call_of(difference);
      lines.add("  {}{}", section, call.empty() ? "" : fmt::format(" of {}", call));
    }
    if (++shown_here <= kMostShown) add_difference(lines, difference);
    if (shown_here == kMostShown + 1) lines.add("    ... and more; --json has all");
  }
  if (calls.size() > kMostCalls) {
    lines.add("  {} more differ, too; --json has all", counted(std::ssize(calls) - kMostCalls, "invocation"));
  }
  add_that_vary(lines, differences);
  for (const auto& [ids, name] : {std::pair{&differences.only_a, "A"}, {&differences.only_b, "B"}}) {
    if (!ids->empty())
      lines.add("  only in {}: {}, from {} on", name, counted(std::ssize(*ids), "invocation"), ids->front());
  }
}

void add_advice(Lines& lines, const Differences& differences, const std::string& a) {
  constexpr size_t kText = 8;  // columns before it
  const auto advice = advice_on(differences, a);
  if (!advice) return;
  lines.add_hanging(kText, "  why   {}", advice->why);
  if (!advice->type.empty()) lines.add_hanging(kText, "  type  {} ({})", text::unbroken(advice->type), advice->note);
  const bool is_command = !advice->command.empty();
  lines.add_hanging(kText, "  next  {}", is_command ? text::unbroken(advice->command) : advice->next);
}

std::string headline_of_slices(const Json& json) {
  if (!json["equal"].get<bool>()) return "Different: a batch has other bits alone, or among others";
  return fmt::format("Equal: of {} batches that are in both, the bits are the same",
                     json["slices"]["equal_batches"].size());
}

std::string headline_of_captures(const Differences& differences) {
  if (differences.are_none()) {
    return fmt::format("Equal: {}, {}, {}", counted(differences.invocations, "invocation"),
                       counted(differences.tensors, "tensor"), counted(differences.facts, "fact"));
  }
  if (!differences.found.empty()) {
    const Difference& first = differences.found.front();
    return fmt::format("Different; the first divergence is in {}: {}", where(first), first.name);
  }
  const auto unpaired = static_cast<int64_t>(differences.only_a.size() + differences.only_b.size());
  return fmt::format("Different: {} in one capture only, the others are equal", counted(unpaired, "invocation"));
}

Json difference_json(const Difference& difference) {
  Json json;
  if (difference.invocations) json["invocations"] = {difference.invocations->first, difference.invocations->second};
  if (!difference.kernel.empty()) json["kernel"] = difference.kernel;
  if (!difference.label.empty()) json["label"] = difference.label;
  if (!difference.source_line.empty()) json["source_line"] = difference.source_line;
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
  lines.add("{}", json.contains("slices") ? headline_of_slices(json) : headline_of_captures(differences));
  if (quiet) return lines;
  const SortedNotes notes = sorted_notes(differences);
  if (json.contains("slices")) add_slices(lines, json["slices"]);
  add_notes(lines, differences.are_none() ? "differs, with the same numbers" : "differs before, and may be why",
            notes.before);
  add_found(lines, differences);
  add_advice(lines, differences, text_at(json, "a"));
  add_notes(lines, "differs later", notes.after);
  add_notes(lines, "differs, and decides no number", notes.others);
  return lines;
}

Json note_json(const Difference& note) {
  Json json = difference_json(note);
  json["may_decide"] = note.may_decide;
  return json;
}

void add_run_notes(Lines& lines, const std::vector<Difference>& notes) {
  std::vector<const Difference*> may_decide, others;
  for (const Difference& difference : notes) (difference.may_decide ? may_decide : others).push_back(&difference);
  add_notes(lines, "the runs differ in what may decide numbers", may_decide);
  add_notes(lines, "differs, and decides no number", others);
}

Json differences_json(const std::string& a, const std::string& b, const Differences& differences) {
  Json json = {
      {"a", a},
      {"b", b},
      {"kind", "captures"},
      {"equal", differences.are_none()},
      {"first", Json()},
      {"differences", Json::array()},
      {"same_numbers", differences.are_none()},
      {"notes", Json::array()},
      {"compared",
       {{"invocations", differences.invocations}, {"tensors", differences.tensors}, {"facts", differences.facts}}},
      {"only_a", differences.only_a},
      {"only_b", differences.only_b}};
  for (const auto& entry : differences.found) json["differences"].push_back(difference_json(entry));
  for (const auto& entry : differences.notes) json["notes"].push_back(note_json(entry));
  if (!differences.found.empty()) json["first"] = json["differences"].front();
  json["vary_by_themselves"] = Json::array();
  for (const Difference* call : calls_that_vary(differences)) {
    json["vary_by_themselves"].push_back({call->invocations->first, call->invocations->second});
  }
  if (const auto advice = advice_on(differences, a)) {
    json["advice"] = {{"why", advice->why},
                      {"type", advice->type},
                      {"note", advice->note},
                      {"next", advice->command.empty() ? advice->next : advice->command}};
  }
  return json;
}

}  // namespace msda::replay
