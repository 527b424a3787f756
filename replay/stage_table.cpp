#include "replay/stage_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "analysis/compare.h"
#include "analysis/stages.h"
#include "replay/replays.h"
#include "replay/statistics.h"

namespace msda::replay {

using analysis::Call;
using analysis::Conventions;
using analysis::Gradient;
using analysis::number;

namespace {

// How far float32 numbers are from float64 ones.
struct Drift {
  double max_abs = 0;
  uint64_t max_ulp = 0;
  int64_t differing_finiteness = 0;

  void add(double narrow, double wide, msda_dtype type) {
    if (!std::isfinite(narrow) || !std::isfinite(wide)) {
      differing_finiteness += std::isnan(narrow) != std::isnan(wide) || std::isinf(narrow) != std::isinf(wide);
      return;
    }
    if (narrow == wide) return;
    max_abs = std::max(max_abs, std::abs(narrow - wide));
    max_ulp = std::max(max_ulp, analysis::ulp_distance(narrow, wide, type));
  }
};

Json json_of(msda_stage_id stage, const Statistics& narrow, const Statistics& wide, const Drift& drift) {
  return {{"stage", msda_stage_name(stage)}, {"deterministic", narrow.json()},
          {"float64", wide.json()},          {"max_abs", number(drift.max_abs)},
          {"max_ulp", drift.max_ulp},        {"differing_finiteness", drift.differing_finiteness}};
}

constexpr msda_stage_id kSampleStages[] = {MSDA_STAGE_PIXEL_COORDINATES,       MSDA_STAGE_CELL,
                                           MSDA_STAGE_INTERPOLATION_WEIGHTS,   MSDA_STAGE_CORNER_VALUES,
                                           MSDA_STAGE_SAMPLED_VALUE,           MSDA_STAGE_GRAD_ATTENTION_WEIGHTS,
                                           MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, MSDA_STAGE_VALUE_CONTRIBUTIONS};

// What the numbers of a stage are called, where there are few.
std::vector<std::string> components_of(msda_stage_id stage) {
  switch (stage) {
    case MSDA_STAGE_PIXEL_COORDINATES:
    case MSDA_STAGE_CELL:
    case MSDA_STAGE_GRAD_SAMPLING_LOCATIONS:
      return {"x", "y"};
    case MSDA_STAGE_INTERPOLATION_WEIGHTS:
      return {"y0,x0", "y0,x1", "y1,x0", "y1,x1"};
    default:
      return {""};
  }
}

struct Column {
  std::string name;
  Conventions conventions;
  msda_mode mode;
};

std::vector<Column> columns_of(const LoadedCall& loaded) {
  const Conventions recorded = loaded.call().conventions;
  Conventions other = recorded;
  other.dialect = loaded.reference() != nullptr ? loaded.reference()->conventions.dialect : MSDA_GRID_SAMPLE;
  std::vector<Column> columns{{msda_dialect_name(recorded.dialect), recorded, MSDA_MODE_DETERMINISTIC}};
  if (other.dialect != recorded.dialect)
    columns.push_back({msda_dialect_name(other.dialect), other, MSDA_MODE_DETERMINISTIC});
  columns.push_back({"float64", recorded, MSDA_MODE_FLOAT64});
  return columns;
}

// A row of one element's table; drifts against float64, the last column.
Json row_of(const std::string& stage, const std::string& component, const std::vector<Column>& columns,
            const std::vector<double>& values, const analysis::Tolerance& tolerance,
            std::optional<std::string>& first_drift) {
  Json row = {{"stage", stage}, {"component", component}, {"values", Json::object()}};
  bool drifts = false;
  for (size_t i = 0; i < columns.size(); ++i) {
    row["values"][columns[i].name] = number(values[i]);
    drifts = drifts || (stage == "cell" ? values[i] != values.back() : !tolerance.holds(values[i], values.back()));
  }
  row["drifts"] = drifts;
  if (drifts && !first_drift) first_drift = stage;
  return row;
}

void add_sample_rows(const LoadedCall& loaded, const analysis::ElementId& element, const analysis::Tolerance& tolerance,
                     Json& rows, std::optional<std::string>& first_drift) {
  const Call& call = loaded.call();
  const auto columns = columns_of(loaded);
  for (const msda_stage_id stage : kSampleStages) {
    if (stage == MSDA_STAGE_VALUE_CONTRIBUTIONS) continue;  // on the way to grad_value only
    const bool other_gradient = element.gradient == Gradient::kAttentionWeights
                                    ? stage == MSDA_STAGE_GRAD_SAMPLING_LOCATIONS
                                    : stage == MSDA_STAGE_SAMPLED_VALUE || stage == MSDA_STAGE_GRAD_ATTENTION_WEIGHTS;
    if (other_gradient) continue;
    std::vector<std::vector<double>> values;
    for (const Column& column : columns) {
      values.push_back(stage_of_sample(call, column.conventions, element.sample, stage, column.mode));
    }
    const auto at = [&](size_t i) {
      std::vector<double> numbers;
      for (const auto& column : values) numbers.push_back(column[i]);
      return numbers;
    };
    if (stage == MSDA_STAGE_CORNER_VALUES || stage == MSDA_STAGE_SAMPLED_VALUE) {
      // Channels are many: the one that is farthest apart stands for them.
      size_t worst = 0;
      double most = -1;
      for (size_t i = 0; i < values[0].size(); ++i) {
        for (const auto& column : values) {
          if (std::abs(column[i] - values.back()[i]) > most) {
            most = std::abs(column[i] - values.back()[i]);
            worst = i;
          }
        }
      }
      const auto D = static_cast<size_t>(call.D);
      const std::string corner =
          stage == MSDA_STAGE_CORNER_VALUES ? components_of(MSDA_STAGE_INTERPOLATION_WEIGHTS)[worst / D] + " " : "";
      rows.push_back(row_of(msda_stage_name(stage), fmt::format("{}channel {}, the worst", corner, worst % D), columns,
                            at(worst), tolerance, first_drift));
      continue;
    }
    const auto components = components_of(stage);
    for (size_t i = 0; i < components.size(); ++i) {
      if (stage == MSDA_STAGE_GRAD_SAMPLING_LOCATIONS && static_cast<int>(i) != element.axis) continue;
      rows.push_back(row_of(msda_stage_name(stage), components[i], columns, at(i), tolerance, first_drift));
    }
  }
}

void add_pixel_rows(const LoadedCall& loaded, const analysis::ElementId& element, const analysis::Tolerance& tolerance,
                    Json& rows, std::optional<std::string>& first_drift) {
  const Call& call = loaded.call();
  const auto& pixel = element.pixel;
  const auto precision = analysis::Precision::of(call.arithmetic());
  const analysis::Contributions contributions(call, call.conventions, pixel.b, pixel.m, pixel.l, precision);
  const auto computed = contributions.computed(pixel.s);
  const auto addends = computed_addends(call, pixel, computed);
  const std::vector<Column> columns = {
      {msda_dialect_name(call.conventions.dialect), call.conventions, MSDA_MODE_DETERMINISTIC},
      {"float64", call.conventions, MSDA_MODE_FLOAT64}};
  double sum = 0;
  for (size_t i = 0; i < computed.size(); ++i) {
    const analysis::SampleId sample{pixel.b, computed[i].q, pixel.m, pixel.l, computed[i].p};
    const auto wide =
        stage_of_sample(call, call.conventions, sample, MSDA_STAGE_VALUE_CONTRIBUTIONS, MSDA_MODE_FLOAT64);
    sum = analysis::rounded_to(sum + addends[i], call.arithmetic());
    const double exact = wide[static_cast<size_t>(computed[i].corner * call.D + pixel.d)];
    rows.push_back(
        row_of(msda_stage_name(MSDA_STAGE_VALUE_CONTRIBUTIONS),
               fmt::format("query {}, point {}, corner {}", computed[i].q, computed[i].p,
                           components_of(MSDA_STAGE_INTERPOLATION_WEIGHTS)[static_cast<size_t>(computed[i].corner)]),
               columns, {addends[i], exact}, tolerance, first_drift));
  }
  const auto truth = pixel_element(call, pixel, contributions.exact(pixel.s), precision);
  rows.push_back(
      row_of(msda_stage_name(MSDA_STAGE_GRAD_VALUE), "", columns, {sum, truth.value}, tolerance, first_drift));
}

std::string cell_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : fmt::format("{:.9g}", value.get<double>());
}

}  // namespace

Json stage_summary(const LoadedCall& loaded, int threads, Devices& devices, const Progress& progress) {
  const Call& call = loaded.call();
  Json summary = Json::array();
  for (const msda_stage_id stage : kSampleStages) {
    progress.show(fmt::format("stages: {}", msda_stage_name(stage)));
    Statistics narrow, wide;
    Drift drift;
    const int64_t per_query = std::max<int64_t>(1, call.M * call.L * call.P * stage_width(call, stage));
    const int64_t chunk = std::clamp<int64_t>((int64_t{1} << 20) / per_query, 1, std::max<int64_t>(1, call.Q));
    for (int64_t b = 0; b < call.B; ++b) {
      for (int64_t q = 0; q < call.Q; q += chunk) {
        const int64_t count = std::min(chunk, call.Q - q);
        const auto f32 = stage_of_queries(call, call.conventions, b, q, count, stage, MSDA_MODE_DETERMINISTIC, threads);
        const auto f64 = stage_of_queries(call, call.conventions, b, q, count, stage, MSDA_MODE_FLOAT64, threads);
        for (size_t i = 0; i < f32.size(); ++i) {
          narrow.add(f32[i]);
          wide.add(f64[i]);
          drift.add(f32[i], f64[i], call.arithmetic());
        }
      }
    }
    summary.push_back(json_of(stage, narrow, wide, drift));
  }
  ReplaySettings settings;
  settings.modes = {MSDA_MODE_DETERMINISTIC};
  settings.threads = threads;
  const Replays replays(loaded, settings, devices,
                        [&](const std::string& step) { progress.show("stages: grad_value, " + step); });
  Statistics narrow, wide;
  Drift drift;
  const analysis::Tensor f32 = replays.others()[0].of(Gradient::kValue), f64 = replays.float64().of(Gradient::kValue);
  for (int64_t i = 0; i < f32.elements(); ++i) {
    narrow.add(f32.at(i));
    wide.add(f64.at(i));
    drift.add(f32.at(i), f64.at(i), f32.dtype);
  }
  summary.push_back(json_of(MSDA_STAGE_GRAD_VALUE, narrow, wide, drift));
  return summary;
}

Json stages_of_element(const LoadedCall& loaded, const analysis::ElementId& element,
                       const analysis::Tolerance& tolerance) {
  Json json = {{"tensor", name_of(element.gradient)}, {"index", element.index}, {"stages", Json::array()}};
  std::optional<std::string> first_drift;
  if (element.is_pixel()) {
    add_pixel_rows(loaded, element, tolerance, json["stages"], first_drift);
  } else {
    add_sample_rows(loaded, element, tolerance, json["stages"], first_drift);
  }
  json["first_drift"] = first_drift ? Json(*first_drift) : Json();
  return json;
}

Lines summary_text(const Json& summary) {
  Lines lines;
  lines.add("  {:<24} {:>11} {:>14} {:>14} {:>10} {:>7} {:>7}  {:>14} {:>12}", "stage, in float32", "numbers", "lowest",
            "highest", "zeros", "NaN", "inf", "max from f64", "max ULP");
  for (const Json& stage : summary) {
    const Json& s = stage["deterministic"];
    lines.add("  {:<24} {:>11} {:>14} {:>14} {:>10} {:>7} {:>7}  {:>14} {:>12}", stage["stage"].get<std::string>(),
              s["count"].get<int64_t>(), cell_of(s["lowest"]), cell_of(s["highest"]), s["zero"].get<int64_t>(),
              s["nan"].get<int64_t>(), s["infinite"].get<int64_t>(), cell_of(stage["max_abs"]),
              stage["max_ulp"].get<uint64_t>());
  }
  return lines;
}

Lines element_text(const Json& element) {
  Lines lines;
  std::vector<int64_t> index = element["index"];
  lines.blank();
  lines.add("  {}[{}]", element["tensor"].get<std::string>(), fmt::join(index, ","));
  const auto add_row = [&](const std::string& stage, const std::string& component, const std::string& values) {
    lines.add("    {:<24} {:<32}{}", stage, component, values);
  };
  for (const Json& row : element["stages"]) {
    std::string names, values;
    for (const auto& [name, value] : row["values"].items()) {
      names += fmt::format(" {:>18}", name);
      values +=
          fmt::format(" {:>18}", name == "float64" && value.is_number() ? fmt::format("{:.15g}", value.get<double>())
                                                                        : cell_of(value));
    }
    if (&row == &element["stages"].front()) add_row("stage", "of", names);
    add_row(row["stage"], row["component"], values + (row["drifts"] ? "  <- drifts" : ""));
  }
  const Json& drift = element["first_drift"];
  lines.add("    first drift: {}", drift.is_null() ? "none" : drift.get<std::string>());
  return lines;
}

}  // namespace msda::replay
