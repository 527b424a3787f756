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

}  // namespace

bool OperatorRow::marks(const capture::Invocation& invocation) const {
  const auto has_input = [&](const std::string& mark) { return find(invocation.inputs, mark) != nullptr; };
  const auto has_fact = [&](const std::string& mark) {
    bool is_there = mark == "dialect" && !invocation.facts.dialect.empty();
    for_each_type(invocation.facts, [&](const auto& facts) { is_there |= facts.contains(mark); });
    return is_there;
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
