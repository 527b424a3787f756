// What is known of a call beside its tensors: values by name.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>

namespace msda::tensors {

struct Facts {
  std::map<std::string, std::string> texts = {};
  std::map<std::string, int64_t> integers = {};
  std::map<std::string, double> reals = {};
  std::map<std::string, bool> flags = {};
};

// Calls visit(map) for the facts of each type.
template <class AnyFacts, class Visit>
void for_each_type(AnyFacts& facts, const Visit& visit) {
  visit(facts.texts);
  visit(facts.integers);
  visit(facts.reals);
  visit(facts.flags);
}

// Return a value as text, a real number as the shortest one that reads back as the same.
inline const std::string& fact_text(const std::string& value) { return value; }
inline std::string fact_text(int64_t value) { return std::to_string(value); }
inline std::string fact_text(bool value) { return value ? "1" : "0"; }
inline std::string fact_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace msda::tensors
