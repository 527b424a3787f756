#include "replay/calls/operator_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "kernels/operator_rows.h"

namespace msda::replay {

NLOHMANN_JSON_SERIALIZE_ENUM(ConventionKind, {{ConventionKind::kText, "text"},
                                              {ConventionKind::kReal, "real"},
                                              {ConventionKind::kInteger, "integer"},
                                              {ConventionKind::kFlag, "flag"}})

namespace {

OperatorRow row_from(const nlohmann::json& json) {
  OperatorRow row{json.at("name"), json.value("title", json.at("name").get<std::string>()), {}, {}, {}, {}};
  for (const auto& convention : json.at("conventions")) {
    row.conventions.push_back({convention.at("name"), convention.at("kind"), convention.value("groups", false)});
  }
  json.at("marks").at("conventions").get_to(row.mark_conventions);
  json.at("marks").at("inputs").get_to(row.mark_inputs);
  for (const auto& tensor : json.at("tensors")) {
    if (tensor.value("reads", "") == "shape") row.only_shapes.push_back(tensor.at("name"));
  }
  return row;
}

// Captures hold real numbers as texts, and flags as integers.
bool has_convention(const capture::CallFacts& facts, const ConventionRow& convention) {
  if (convention.name == "dialect") return !facts.dialect.empty();
  const bool is_text = convention.kind == ConventionKind::kText || convention.kind == ConventionKind::kReal;
  return is_text ? facts.texts.contains(convention.name) : facts.integers.contains(convention.name);
}

}  // namespace

bool OperatorRow::marks(const capture::Invocation& invocation) const {
  const auto has_input = [&](const std::string& mark) { return find(invocation.inputs, mark) != nullptr; };
  const auto has_fact = [&](const std::string& mark) {
    return has_convention(invocation.facts, *std::ranges::find(conventions, mark, &ConventionRow::name));
  };
  return std::ranges::all_of(mark_inputs, has_input) && std::ranges::all_of(mark_conventions, has_fact);
}

std::span<const OperatorRow> operator_rows() {
  static const std::vector<OperatorRow> rows = [] {
    std::vector<OperatorRow> all;
    for (const auto& json : nlohmann::json::parse(kernels::kOperatorRows)) all.push_back(row_from(json));
    return all;
  }();
  return rows;
}

const OperatorRow* row_of(const std::string& operator_name) {
  const auto found = std::ranges::find(operator_rows(), operator_name, &OperatorRow::name);
  return found == operator_rows().end() ? nullptr : &*found;
}

std::string operator_titles() {
  std::vector<std::string> titles;
  for (const OperatorRow& row : operator_rows()) titles.push_back(row.title);
  return fmt::format("{}", fmt::join(titles, ", "));
}

}  // namespace msda::replay
