#include "recorder/writer/facts.h"

#include <array>

namespace msda::record {
namespace {

std::string take_text(std::map<std::string, std::string>& texts, const char* name) {
  const auto found = texts.find(name);
  if (found == texts.end()) return "";
  std::string text = std::move(found->second);
  texts.erase(found);
  return text;
}

std::optional<std::array<int64_t, 3>> triple(const std::vector<int64_t>& numbers) {
  if (numbers.size() != 3) return std::nullopt;
  return std::array{numbers[0], numbers[1], numbers[2]};
}

}  // namespace

std::optional<int64_t> integer(const std::map<std::string, int64_t>& integers, const char* name) {
  const auto found = integers.find(name);
  return found == integers.end() ? std::nullopt : std::optional(found->second);
}

capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count) {
  auto texts = begin.texts;
  capture::CallFacts facts;
  facts.kernel = take_text(texts, "kernel");
  facts.kernel_digest = take_text(texts, "kernel_digest");
  facts.dialect = take_text(texts, "dialect");
  const bool has_dialect = !facts.dialect.empty();
  if (has_dialect) facts.padding_mode = take_text(texts, "padding_mode");
  facts.time = take_text(texts, "time");
  facts.label = take_text(texts, "label");
  if (has_dialect) facts.align_corners = integer(begin.integers, "align_corners").value_or(0) != 0;
  facts.grid = triple(begin.grid);
  facts.block = triple(begin.block);
  facts.shared_bytes = integer(begin.integers, "shared_bytes");
  facts.stream = integer(begin.integers, "stream");
  facts.device = integer(begin.integers, "device");
  facts.process = integer(begin.integers, "process");
  facts.thread = integer(begin.integers, "thread");
  // What is left are facts of the adapter's own; "unconfirmed" was for settle().
  facts.texts = std::move(texts);
  for (const auto& [name, value] : begin.integers) {
    if (!capture::is_call_attribute(name, has_dialect) && name != "unconfirmed") facts.integers[name] = value;
  }
  if (count != nullptr) {
    facts.duplicates = count->duplicates;
    facts.distinct_outputs = count->distinct_outputs;
  }
  return facts;
}

}  // namespace msda::record
