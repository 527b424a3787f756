#include "replay/calls/operator_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

#include "kernels/operator_rows.h"
#include "replay/base/errors.h"

namespace msda::replay {

NLOHMANN_JSON_SERIALIZE_ENUM(ConventionKind, {{ConventionKind::kText, "text"},
                                              {ConventionKind::kReal, "real"},
                                              {ConventionKind::kInteger, "integer"},
                                              {ConventionKind::kFlag, "flag"}})

namespace {

OperatorRow row_from(const nlohmann::json& json) {
  OperatorRow row{json.at("name"), {}, {}, {}, {}};
  for (const auto& convention : json.at("conventions")) {
    row.conventions.push_back({convention.at("name"), convention.at("kind"), convention.value("groups", false),
                               convention.value("values", std::vector<std::string>{}),
                               convention.value("of_tests", "")});
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

namespace {

// Returns the convention of the operator that has dialects.
const ConventionRow& dialects() {
  for (const OperatorRow& row : operator_rows()) {
    const auto found = std::ranges::find_if(row.conventions, [](const auto& c) { return !c.of_tests.empty(); });
    if (found != row.conventions.end()) return *found;
  }
  throw std::logic_error("no operator has dialects");
}

}  // namespace

void check_dialect(const std::string& name, const std::string& where) {
  const std::vector<std::string>& known = dialects().values;
  if (std::ranges::find(known, name) != known.end()) return;
  throw BadInput(fmt::format("{}: unknown dialect \"{}\"; there are {} and {}", where, name,
                             fmt::join(known.begin(), known.end() - 1, ", "), known.back()));
}

const std::string& dialect_of_tests() { return dialects().of_tests; }

}  // namespace msda::replay
