#include "recorder/writer/facts.h"

#include <array>
#include <string_view>
#include <utility>

#include "recorder/capture/call_attributes.h"

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

namespace {

// Moves a launch's facts into the attributes that the format defines.
struct TakeFact {
  const spool::Begin& begin;
  std::map<std::string, std::string>& texts;  // what is moved is erased

  void operator()(const char* name, std::string& fact) const { fact = take_text(texts, name); }
  void operator()(const char* name, bool& fact) const { fact = integer(begin.integers, name).value_or(0) != 0; }
  void operator()(const char* name, std::optional<int64_t>& fact) const { fact = integer(begin.integers, name); }
  void operator()(const char* name, std::optional<std::array<int64_t, 3>>& fact) const {
    fact = triple(std::string_view(name) == "grid" ? begin.grid : begin.block);
  }
  void operator()(const char*, std::optional<capture::RecordedTolerance>&) const {}  // a launch has none
};

}  // namespace

capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count) {
  auto texts = begin.texts;
  capture::CallFacts facts;
  const TakeFact take{begin, texts};
  for_each_call_attribute(facts, take);
  const bool has_dialect = !facts.dialect.empty();
  if (has_dialect) for_each_convention(facts, take);
  // The others are facts of the adapter; "unconfirmed" was for settle().
  facts.texts = std::move(texts);
  facts.reals = begin.reals;
  facts.flags = begin.flags;
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
