#include "replay/diff/trail_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "analysis/causes/finding.h"
#include "replay/diff/trail_next.h"
#include "replay/diff/trail_pairs.h"

namespace msda::replay {
namespace {

using analysis::thousands;
using capture::TrailRow;

constexpr size_t kLabel = 14;          // columns of a label and its indentation
constexpr size_t kMostParameters = 8;  // that are shown
constexpr size_t kColumnsOfName = 60;  // columns of a kernel's name

void add_labelled(Lines& lines, const char* label, const std::string& text) {
  lines.add_hanging(kLabel, "  {:<{}}{}", label, kLabel - 2, text);
}

bool is_plausible(double number) { return std::isfinite(number) && std::abs(number) > 1e-9 && std::abs(number) < 1e9; }

std::string callers_of_row(const capture::TrailCaller& caller) {
  std::string text;
  for (const std::string* item : {&caller.label, &caller.node, &caller.operation, &caller.python}) {
    if (!item->empty()) text += (text.empty() ? "" : ", ") + *item;
  }
  return text;
}

std::string configuration_text(const capture::TrailConfiguration* configuration) {
  if (configuration == nullptr) return "(unknown)";
  return fmt::format("grid [{}], block [{}], {} bytes shared", fmt::join(configuration->grid, ","),
                     fmt::join(configuration->block, ","), configuration->shared_bytes);
}

// Returns where it is, what it is, and what it wrote.
std::string side_text(const TrailRun& run, const std::vector<size_t>& rows) {
  if (rows.empty()) return "(none)";
  const size_t at = rows.front();
  const TrailRow& row = run.row(at);
  std::string text = where_of(run, at);
  if (rows.size() > 1) text = fmt::format("{} rows from {} on", thousands(std::ssize(rows)), text);
  text += ": " + what_of(run, at, kColumnsOfName);
  if (rows.size() > 1 || (row.flags & TrailRow::kIsDigested) == 0) return text;
  return text + fmt::format(", digest {:016x} of {} bytes", row.digest, thousands(static_cast<int64_t>(row.bytes)));
}

// Returns "of A | of B", or one text if both are the same.
std::string both_text(const std::string& a, const std::string& b) {
  const auto shown = [](const std::string& text) { return text.empty() ? "(unknown)" : text; };
  return a == b ? a : fmt::format("{} | {}", shown(a), shown(b));
}

std::string callers_text(const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  if (part.a.empty()) return callers_of_row(b.caller(part.b.front()));
  const std::string of_a = callers_of_row(a.caller(part.a.front()));
  return part.b.empty() ? of_a : both_text(of_a, callers_of_row(b.caller(part.b.front())));
}

void add_pair(Lines& lines, const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  const size_t row_a = part.a.front(), row_b = part.b.front();
  const auto *of_a = a.configuration(row_a), *of_b = b.configuration(row_b);
  if (of_a != nullptr || of_b != nullptr) {
    const bool is_same = of_a != nullptr && of_b != nullptr && *of_a == *of_b;
    add_labelled(lines, "launched", configuration_text(of_a) + (is_same ? "" : " | " + configuration_text(of_b)));
  }
  const std::string &code_a = a.kernel(row_a).digest, &code_b = b.kernel(row_b).digest;
  if (code_a != code_b) add_labelled(lines, "code", fmt::format("{} | {}", code_a, code_b));
  for (size_t i = 0; i < part.parameters.size() && i < kMostParameters; ++i) {
    const auto& [offset, word_a, word_b, in_a, in_b] = part.parameters[i];
    add_labelled(lines, i == 0 ? "parameters" : "",
                 fmt::format("at byte {}: {} | {}", offset, word_text(word_a, in_a), word_text(word_b, in_b)));
  }
  if (part.parameters.size() > kMostParameters) {
    add_labelled(lines, "", fmt::format("and {} more: --json has all", part.parameters.size() - kMostParameters));
  }
}

void add_first(Lines& lines, const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  add_labelled(lines, "kind", fmt::format("{}: {}", name_of(part.kind), meaning_of(part.kind)));
  add_labelled(lines, "A", side_text(a, part.a));
  add_labelled(lines, "B", side_text(b, part.b));
  if (const std::string callers = callers_text(a, b, part); !callers.empty()) {
    add_labelled(lines, "called by", callers);
  }
  if (part.is_pair()) add_pair(lines, a, b, part);
  add_labelled(lines, "cause", part.cause.empty() ? "the trails do not show it" : part.cause);
  for (const std::string& text : part.evidence) add_labelled(lines, "", "- " + text);
}

}  // namespace

const char* meaning_of(TrailDivergence divergence) {
  switch (divergence) {
    case TrailDivergence::kAnotherKernel:
      return "the runs launch other code here";
    case TrailDivergence::kOtherParameters:
      return "the same code with other parameters or another grid";
    case TrailDivergence::kOtherInput:
      return "other data, which no launch wrote";
    case TrailDivergence::kOtherOutput:
      return "equal so far, and launched equally: another result";
    case TrailDivergence::kOnlyInA:
      return "B does not launch this";
    case TrailDivergence::kOnlyInB:
      return "A does not launch this";
  }
  return "";
}

std::string word_text(uint64_t word, bool is_there) {
  if (!is_there) return "(not there)";
  if (word == capture::Trail::kAddress) return "an address";
  std::string text = fmt::format("{:#018x}", word), values;
  const auto add = [&](const std::string& value) { values += (values.empty() ? "" : ", ") + value; };
  const auto low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> 32);
  const auto number = static_cast<int64_t>(word);
  if (std::abs(static_cast<double>(number)) < 1e12) add(fmt::format("{}", number));
  for (const uint32_t half : {low, high}) {
    const auto as_float = std::bit_cast<float>(half);
    if (is_plausible(as_float)) add(fmt::format("{:.9g}f", as_float));
  }
  const auto as_double = std::bit_cast<double>(word);
  if (is_plausible(as_double)) add(fmt::format("{:.17g}", as_double));
  return values.empty() ? text : fmt::format("{} ({})", text, values);
}

std::string place_text(const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  const TrailRun& run = part.a.empty() ? b : a;
  const size_t at = part.a.empty() ? part.b.front() : part.a.front();
  return fmt::format("at {} of {}{}: {}", where_of(run, at), thousands(run.launches.back()),
                     part.a.empty() ? ", in B" : "", what_of(run, at, kColumnsOfName));
}

Lines trail_text(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences) {
  Lines lines;
  if (differences.first) add_first(lines, a, b, *differences.first);
  if (const auto& [rows, differ, unpaired, unknown] = differences.after; differences.first) {
    add_labelled(lines, "from there",
                 fmt::format("of {} rows {} differ, {} are in one run only, {} cannot be compared", thousands(rows),
                             thousands(differ), thousands(unpaired), thousands(unknown)));
  }
  const char* label = "notes";
  for (const std::string& note : differences.notes) {
    add_labelled(lines, label, note);
    label = "";
  }
  if (differences.first)
    lines.add_whole(fmt::format("  {:<{}}{}", "next", kLabel - 2, next_command(a, b, *differences.first)));
  return lines;
}

}  // namespace msda::replay
