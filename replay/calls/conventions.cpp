#include "replay/calls/conventions.h"

#include <fmt/format.h>

#include <utility>

#include "recorder/text/numbers.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"

namespace msda::replay {

namespace {

using Json = nlohmann::ordered_json;

// Returns null if the invocation does not have it. What is no number, or no flag, stays as it is.
Json value_of(const capture::Invocation& invocation, const std::string& name, ConventionKind kind) {
  const capture::CallFacts& facts = invocation.facts;
  if (const auto real = facts.reals.find(name); real != facts.reals.end()) return real->second;
  if (const auto flag = facts.flags.find(name); flag != facts.flags.end()) return flag->second;
  if (const auto integer = facts.integers.find(name); integer != facts.integers.end()) {
    return kind == ConventionKind::kFlag ? Json(integer->second != 0) : Json(integer->second);
  }
  const auto text = facts.texts.find(name);
  if (text == facts.texts.end()) return nullptr;
  const auto number = kind == ConventionKind::kReal ? text::parse_number<double>(text->second) : std::nullopt;
  return number ? Json(*number) : Json(text->second);
}

}  // namespace

Json conventions_of(const capture::Invocation& invocation) {
  Json json = Json::object();
  const OperatorRow* row = row_of(operator_of(invocation));
  if (row == nullptr) return json;
  for (const auto& convention : row->conventions) {
    if (Json value = value_of(invocation, convention.name, convention.kind); !value.is_null())
      json[convention.name] = std::move(value);
  }
  return json;
}

std::string conventions_text(const capture::Invocation& invocation) {
  const Json all = conventions_of(invocation);
  std::string text;
  for (const auto& [name, value] : all.items()) {
    const std::string shown = value.is_string()         ? value.get<std::string>()
                              : value.is_number_float() ? tensors::fact_text(value.get<double>())
                                                        : value.dump();
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown);
  }
  return text;
}

std::string source_line_of(const capture::Invocation& invocation) {
  const auto found = invocation.facts.texts.find("source_line");
  return found == invocation.facts.texts.end() ? "" : found->second;
}

}  // namespace msda::replay
