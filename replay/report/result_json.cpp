#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "replay/base/json.h"
#include "replay/calls/conventions.h"
#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/report/help.h"
#include "replay/report/result.h"

namespace msda::replay {

using analysis::number;

namespace {

Json to_json(const Conclusion& conclusion) {
  const analysis::Verdict& verdict = conclusion.verdict;
  Json json = {{"at_fault", name_of(verdict.at_fault)}, {"summary", headline(verdict.summary, conclusion.damaged)},
               {"compared", conclusion.compared},       {"damaged", conclusion.damaged},
               {"grade", grade_of(conclusion)},         {"causes", Json::object()}};
  for (const auto& [cause, count] : verdict.causes) json["causes"][name_of(cause)] = count;
  json["explained_by_rounding"] = verdict.explained_by_rounding;
  json["explained_by_16_bits"] = verdict.explained_by_16_bits;
  json["within_customary"] = verdict.within_customary;
  json["not_examined"] = 0;  // every element is examined; kept for readers of version 0.1
  return json;
}

Json to_json(const analysis::NamedComparison& c) {
  return {{"observed", c.observed},
          {"expected", c.expected},
          {"tensor", name_of(c.gradient)},
          {"mismatched", c.comparison.mismatched},
          {"total", c.comparison.total},
          {"non_finite", c.comparison.non_finite},
          {"max_abs", number(c.comparison.max_abs)},
          {"max_rel", number(c.comparison.max_rel)},
          {"max_ulp", c.comparison.max_ulp},
          {"worst_index", c.worst_index}};
}

// "0-3,7": the elements' row-major indices.
std::string format_runs(const std::vector<analysis::JudgedElements::Run>& runs) {
  std::string text;
  for (const auto& [flat, count] : runs) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", flat);
    if (count > 1) text += fmt::format("-{}", flat + count - 1);
  }
  return text;
}

Json to_json(const analysis::JudgedElements& set) {
  Json json = {{"tensor", name_of(set.gradient)},   {"against", set.against}, {"cause", name_of(set.cause)},
               {"at_fault", name_of(set.at_fault)}, {"count", set.elements},  {"elements", format_runs(set.runs)}};
  if (set.advisory) json["advisory"] = true;
  return json;
}

// "x", or the number.
Json index_json(analysis::Dimension dimension, int64_t index) {
  if (dimension.is_axis()) return std::string(1, analysis::axis_name(static_cast<size_t>(index)));
  return index;
}

Json to_json(const analysis::Pattern& pattern) {
  Json json = {{"count", pattern.elements}};
  for (const auto& [dimension, index] : pattern.part) json["part"][name_of(dimension)] = index_json(dimension, index);
  json[pattern.kind == analysis::Pattern::Kind::kRatio ? "ratio" : "offset"] = number(pattern.value);
  return json;
}

Json to_json(const analysis::Group& group) {
  Json json = {{"tensor", name_of(group.gradient)},
               {"cause", name_of(group.cause)},
               {"at_fault", name_of(group.at_fault)},
               {"against", group.against},
               {"count", group.elements}};
  if (group.advisory) json["advisory"] = true;
  json["shared"] = Json::object();
  for (const analysis::Extent& extent : group.extents) {
    const char* name = name_of(extent.dimension);
    if (extent.is_one()) json["shared"][name] = index_json(extent.dimension, extent.first);
    json["extents"][name] = {
        {"size", extent.size}, {"first", extent.first}, {"last", extent.last}, {"distinct", extent.distinct}};
  }
  json["complete"] = group.is_complete();
  json["patterns"] = Json::array();
  for (const analysis::Pattern& pattern : group.patterns) json["patterns"].push_back(to_json(pattern));
  json["as_if"] = group.as_if;
  json["worst"] = group.farthest;
  return json;
}

Json to_json(const analysis::Bias& bias) {
  return {{"tensor", name_of(bias.gradient)},
          {"direction", name_of(bias.direction)},
          {"count", bias.count},
          {"total", bias.total},
          {"chance_bits", bias.chance_bits},
          {"mean_units", bias.mean}};
}

Json to_json(const analysis::Finding& f) {
  Json json = {{"tensor", name_of(f.gradient)},
               {"index", f.index},
               {"count", f.count},
               {"observed", number(f.observed)},
               {"expected", number(f.expected)},
               {"float64", number(f.float64)},
               {"against", f.against},
               {"cause", name_of(f.cause)},
               {"at_fault", name_of(f.at_fault)},
               {"why", f.why},
               {"evidence", f.evidence}};
  if (f.advisory) json["advisory"] = true;
  return json;
}

}  // namespace

Json to_json(const InvocationResult& result) {
  const capture::CallFacts& facts = result.invocation.facts;
  Json json = {{"id", result.invocation.id},
               {"operator", operator_of(result.invocation)},
               {"kernel", facts.kernel},
               {"dialect", facts.dialect}};
  if (facts.dialect.empty()) {
    json.update(conventions_of(result.invocation));
  } else {
    json["padding_mode"] = facts.padding_mode;
    json["align_corners"] = facts.align_corners;
  }
  json["tolerance"] =
      result.tolerance ? Json{{"atol", result.tolerance->atol}, {"rtol", result.tolerance->rtol}} : Json();
  json["digests"] = Json::object();
  for (const auto& [mode, digests] : result.digests) {
    for (const auto gradient : result.call->gradients()) {
      const std::string& digest = digests[gradient.place()];
      if (!digest.empty()) json["digests"][mode][name_of(gradient)] = digest;
    }
  }
  for (const auto& [mode, repeats] : result.repeats) {
    json["repeats"][mode]["runs"] = repeats.runs;
    for (const auto gradient : result.call->gradients()) {
      const auto at = gradient.place();
      json["repeats"][mode][name_of(gradient)] = {{"distinct", repeats.distinct[at]},
                                                  {"spread", number(repeats.spread[at])}};
    }
  }
  for (const auto& [side, whereabouts] : result.whereabouts) {
    json["devices"][side] = whereabouts.devices;
    if (!whereabouts.why_moved.empty()) json["moved_to_cpu"][side] = whereabouts.why_moved;
  }
  if (result.original) json["original"] = to_json(*result.original);
  if (result.poison) json["poison"] = to_json(*result.poison);
  for (const RecordedOrder& order : result.recorded_order) {
    json["recorded_order"][name_of(order.gradient)] = {
        {"pixels", order.pixels}, {"in_order", order.in_order}, {"equal", order.equal}, {"total", order.total}};
  }
  if (!result.original_left_out.empty()) json["original_left_out"] = result.original_left_out;
  if (!result.notes.empty()) json["notes"] = result.notes;
  json["altered"] = result.altered;
  json["comparisons"] = Json::array();
  for (const auto& comparison : result.report.comparisons) json["comparisons"].push_back(to_json(comparison));
  json["judged"] = Json::array();
  for (const auto& set : result.report.judged) json["judged"].push_back(to_json(set));
  json["fits"] = result.report.fits;
  json["biases"] = Json::array();
  for (const auto& bias : result.report.biases) json["biases"].push_back(to_json(bias));
  json["groups"] = Json::array();
  for (const auto& group : result.report.groups) {
    json["groups"].push_back(to_json(group));
    const GroupHelp help = help_for(group, result);
    json["groups"].back()["help"] = help.text;
    if (!help.type.empty()) json["groups"].back()["type"] = help.type;
    if (help.shows_stages) json["groups"].back()["stages"] = true;
  }
  json["findings"] = Json::array();
  for (const auto& finding : result.report.findings) json["findings"].push_back(to_json(finding));
  json["verdict"] = to_json(conclusion_of(result));
  return json;
}

Json to_json(const std::string& capture, const std::vector<InvocationResult>& results,
             const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
             const Conclusion& conclusion) {
  Json json = {{"capture", capture}, {"verdict", to_json(conclusion)}, {"invocations", Json::array()}};
  for (const InvocationResult& result : results) json["invocations"].push_back(to_json(result));
  if (!relaunched.empty()) json["relaunched"] = Json::array();
  for (const auto& [id, kernel, original, poison, altered] : relaunched) {
    Json entry = {{"id", id}, {"kernel", kernel}, {"original", to_json(original)}};
    if (poison) entry["poison"] = to_json(*poison);
    entry["altered"] = altered;
    json["relaunched"].push_back(std::move(entry));
  }
  if (!not_replayed.empty()) json["not_replayed"] = Json::array();
  for (const auto& [id, why] : not_replayed) json["not_replayed"].push_back({{"id", id}, {"why", why}});
  return json;
}

}  // namespace msda::replay
