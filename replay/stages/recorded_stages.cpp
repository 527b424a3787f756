#include "replay/stages/recorded_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/causes/finding.h"
#include "replay/base/json.h"

namespace msda::replay {
namespace {

void put(Json& json, const std::string& name, int64_t value) { json[name] = value; }
void put(Json& json, const std::string& name, const std::optional<double>& value) {
  json[name] = value ? analysis::number(*value) : Json();
}
void put(Json& json, const std::string& name, const std::optional<capture::Extreme>& extreme) {
  json[name] = extreme ? analysis::number(extreme->value) : Json();
  json[name + "_index"] = extreme ? Json(extreme->index) : Json();
}

std::string cell_text(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : "-"; }
std::string cell_text(const std::optional<capture::Extreme>& extreme) {
  return extreme ? fmt::format("{:.6g}", extreme->value) : "-";
}
std::string place_text(const std::optional<capture::Extreme>& extreme) {
  return extreme && extreme->value != 0 ? fmt::format("[{}]", fmt::join(extreme->index, ",")) : "";
}

}  // namespace

Json recorded_stages_json(const std::vector<capture::Invocation::Stage>& stages) {
  Json result = Json::array();
  for (const auto& stage : stages) {
    Json& json = result.emplace_back(Json{{"stage", stage.name}});
    if (!stage.facts) continue;
    json["arithmetic"] = stage.facts->arithmetic;
    for_each_summary_attribute(stage.facts->summary, [&](const char* name, const auto& x) { put(json, name, x); });
    if (!stage.facts->float64) continue;
    Json& beside = json["float64"] = Json::object();
    const auto add = [&](const char* name, const auto& x) { put(beside, name, x); };
    for_each_summary_attribute(stage.facts->float64->summary, add);
    for_each_difference_attribute(*stage.facts->float64, add);
  }
  return result;
}

Lines recorded_stages_text(const std::vector<capture::Invocation::Stage>& stages) {
  Lines lines;
  for (const auto& stage : stages) {
    if (!stage.facts) continue;
    const auto& [arithmetic, s, float64] = *stage.facts;
    if (lines.empty()) {
      lines.add("    {:<24} {:>11} {:>12} {:>12} {:>12} {:>10} {:>9} {:>7} {:>7}  {:>12} {:>12}  {}",
                "stage, in " + arithmetic, "numbers", "lowest", "highest", "mean |x|", "zeros", "subnormal", "NaN",
                "inf", "from float64", "relative", "where");
    }
    std::string from_float64;
    if (float64) {
      from_float64 = fmt::format("  {:>12} {:>12}  {}", cell_text(float64->largest_absolute_difference),
                                 cell_text(float64->largest_relative_difference),
                                 place_text(float64->largest_absolute_difference));
    }
    lines.add("    {:<24} {:>11} {:>12} {:>12} {:>12} {:>10} {:>9} {:>7} {:>7}{}", stage.name, s.count,
              cell_text(s.minimum), cell_text(s.maximum), cell_text(s.mean_magnitude), s.zeros, s.subnormal, s.nan,
              s.positive_infinite + s.negative_infinite, from_float64);
  }
  return lines;
}

}  // namespace msda::replay
