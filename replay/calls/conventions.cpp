#include "replay/calls/conventions.h"

#include <fmt/format.h>

#include <algorithm>

#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"

namespace msda::replay {

nlohmann::ordered_json conventions_of(const capture::Invocation& invocation) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const OperatorRow* row = row_of(operator_of(invocation));
  if (row == nullptr) return json;
  const capture::CallFacts& facts = invocation.facts;
  for (const auto& [name, kind, groups] : row->conventions) {
    if (kind == ConventionKind::kText || kind == ConventionKind::kReal) {
      if (const auto text = facts.texts.find(name); text != facts.texts.end()) json[name] = text->second;
    } else if (const auto found = facts.integers.find(name); found != facts.integers.end()) {
      if (kind == ConventionKind::kFlag) json[name] = found->second != 0;
      if (kind == ConventionKind::kInteger) json[name] = found->second;
    }
  }
  return json;
}

bool is_real(const capture::Invocation& invocation, const std::string& name) {
  const OperatorRow* row = row_of(operator_of(invocation));
  return row != nullptr && std::ranges::any_of(row->conventions, [&](const ConventionRow& convention) {
           return convention.name == name && convention.kind == ConventionKind::kReal;
         });
}

std::string conventions_text(const capture::Invocation& invocation) {
  const nlohmann::ordered_json all = conventions_of(invocation);
  std::string text;
  for (const auto& [name, value] : all.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown);
  }
  return text;
}

}  // namespace msda::replay
