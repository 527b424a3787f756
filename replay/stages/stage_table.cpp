#include "replay/stages/stage_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "analysis/compare.h"
#include "analysis/operators/msda/element.h"
#include "analysis/operators/msda/stages.h"
#include "replay/modes/replays.h"
#include "replay/stages/statistics.h"

namespace msda::replay {

using analysis::Conventions;
using analysis::Gradient;
using analysis::MsdaCall;
using analysis::number;

namespace {

// The distance between two sets of numbers: float32 and float64, or recorded and recomputed.
struct Drift {
  double max_abs = 0;
  uint64_t max_ulp = 0;
  int64_t differing = 0, differing_finiteness = 0;

  void add(double narrow, double wide, msda_dtype type) {
    differing += narrow != wide && !(std::isnan(narrow) && std::isnan(wide));
    if (!std::isfinite(narrow) || !std::isfinite(wide)) {
      differing_finiteness += std::isnan(narrow) != std::isnan(wide) || std::isinf(narrow) != std::isinf(wide);
      return;
    }
    if (narrow == wide) return;
    max_abs = std::max(max_abs, std::abs(narrow - wide));
    max_ulp = std::max(max_ulp, analysis::ulp_distance(narrow, wide, type));
  }
};

// A recomputed stage, in float32 and float64, and its recorded summary.
class StageSums {
 public:
  StageSums(msda_stage_id stage, const StageTensors& recorded, msda_dtype type)
      : stage_(stage), recorded_(recorded), type_(type) {}

  void add(int64_t flat, double narrow, double wide) {
    narrow_.add(narrow);
    wide_.add(wide);
    drift_.add(narrow, wide, type_);
    const auto kept = recorded_.at(stage_, flat);
    if (!kept) return;
    kept_.add(*kept);
    from_float64_.add(*kept, wide, type_);
    from_replay_.add(analysis::rounded_to(*kept, type_), narrow, type_);
  }

  Json json() const {
    Json json = {{"stage", msda_stage_name(stage_)}, {"deterministic", narrow_.json()},
                 {"float64", wide_.json()},          {"max_abs", number(drift_.max_abs)},
                 {"max_ulp", drift_.max_ulp},        {"differing_finiteness", drift_.differing_finiteness}};
    const auto& summary = recorded_.summary(stage_);
    if (recorded_.of(stage_)) {
      json["recorded"] = kept_.json();
      json["recorded"]["max_abs"] = number(from_float64_.max_abs);
      json["recorded"]["max_ulp"] = from_float64_.max_ulp;
      json["recorded"]["from_deterministic"] = {{"differing", from_replay_.differing},
                                                {"max_abs", number(from_replay_.max_abs)},
                                                {"max_ulp", from_replay_.max_ulp},
                                                {"differing_finiteness", from_replay_.differing_finiteness}};
    } else if (summary) {
      const Statistics kept = statistics_of(summary->summary);
      json["recorded"] = kept.json();
      const auto& apart = summary->float64 ? summary->float64->largest_absolute_difference : std::nullopt;
      json["recorded"]["max_abs"] = apart ? number(apart->value) : summary->float64 ? Json() : Json(0.0);
      // A replay that was rounded to 16 bits does not have the arithmetic's numbers.
      if (summary->arithmetic == msda_dtype_name(type_)) json["recorded"]["differs_in"] = narrow_.differs_in(kept);
    }
    return json;
  }

 private:
  msda_stage_id stage_;
  const StageTensors& recorded_;
  msda_dtype type_;  // of the float32 numbers
  Statistics narrow_, wide_, kept_;
  Drift drift_, from_float64_, from_replay_;
};

constexpr msda_stage_id kSampleStages[] = {MSDA_STAGE_PIXEL_COORDINATES,       MSDA_STAGE_CELL,
                                           MSDA_STAGE_INTERPOLATION_WEIGHTS,   MSDA_STAGE_CORNER_VALUES,
                                           MSDA_STAGE_SAMPLED_VALUE,           MSDA_STAGE_GRAD_ATTENTION_WEIGHTS,
                                           MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, MSDA_STAGE_VALUE_CONTRIBUTIONS};

// The names of a stage's numbers, if there are few.
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

// The rows of one element's table; drift is relative to float64, the last column.
struct ElementRows {
  const StageTensors& recorded;
  const analysis::Tolerance& tolerance;
  Json rows = Json::array();
  std::optional<std::string> first_drift = {};

  // `flat` is the number's index in the stage's tensor.
  void add(msda_stage_id id, const std::string& component, int64_t flat, const std::vector<Column>& columns,
           const std::vector<double>& values) {
    const std::string stage = msda_stage_name(id);
    const auto drifts_from_float64 = [&](double value) {
      return id == MSDA_STAGE_CELL ? value != values.back() : !tolerance.holds(value, values.back());
    };
    Json row = {{"stage", stage}, {"component", component}, {"values", Json::object()}};
    bool drifts = false;
    if (recorded.has_tensors()) {
      const auto kept = recorded.at(id, flat);
      row["values"]["recorded"] = kept ? number(*kept) : Json();
      drifts = kept && drifts_from_float64(*kept);
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      row["values"][columns[i].name] = number(values[i]);
      drifts = drifts || drifts_from_float64(values[i]);
    }
    row["drifts"] = drifts;
    if (drifts && !first_drift) first_drift = stage;
    rows.push_back(std::move(row));
  }
};

void add_sample_rows(const LoadedCall& loaded, const analysis::ElementId& element, ElementRows& rows) {
  const MsdaCall& call = *loaded.msda();
  const analysis::SampleId sample = call.sample_of(element.gradient, element.flat);
  const int axis = call.axis_of(element.gradient, element.flat);
  const auto columns = columns_of(loaded);
  for (const msda_stage_id stage : kSampleStages) {
    if (stage == MSDA_STAGE_VALUE_CONTRIBUTIONS) continue;  // belongs to grad_value only
    const bool other_gradient = element.gradient == analysis::MsdaGradient::kAttentionWeights
                                    ? stage == MSDA_STAGE_GRAD_SAMPLING_LOCATIONS
                                    : stage == MSDA_STAGE_SAMPLED_VALUE || stage == MSDA_STAGE_GRAD_ATTENTION_WEIGHTS;
    if (other_gradient) continue;
    std::vector<std::vector<double>> values;
    for (const Column& column : columns) {
      values.push_back(stage_of_sample(call, column.conventions, sample, stage, column.mode));
    }
    const int64_t first = sample.flat(call) * stage_width(call, stage);
    const auto at = [&](size_t i) {
      std::vector<double> numbers;
      for (const auto& column : values) numbers.push_back(column[i]);
      return numbers;
    };
    if (stage == MSDA_STAGE_CORNER_VALUES || stage == MSDA_STAGE_SAMPLED_VALUE) {
      // Only the channel with the largest difference is shown.
      size_t worst = 0;
      double most = -1;
      const auto compare = [&](size_t i, double value) {
        if (!(std::abs(value - values.back()[i]) > most)) return;
        most = std::abs(value - values.back()[i]);
        worst = i;
      };
      for (size_t i = 0; i < values[0].size(); ++i) {
        for (const auto& column : values) compare(i, column[i]);
        if (const auto kept = rows.recorded.at(stage, first + static_cast<int64_t>(i))) compare(i, *kept);
      }
      const auto D = static_cast<size_t>(call.D);
      const std::string corner =
          stage == MSDA_STAGE_CORNER_VALUES ? components_of(MSDA_STAGE_INTERPOLATION_WEIGHTS)[worst / D] + " " : "";
      rows.add(stage, fmt::format("{}channel {}, the worst", corner, worst % D), first + static_cast<int64_t>(worst),
               columns, at(worst));
      continue;
    }
    const auto components = components_of(stage);
    for (size_t i = 0; i < components.size(); ++i) {
      if (stage == MSDA_STAGE_GRAD_SAMPLING_LOCATIONS && static_cast<int>(i) != axis) continue;
      rows.add(stage, components[i], first + static_cast<int64_t>(i), columns, at(i));
    }
  }
}

void add_pixel_rows(const LoadedCall& loaded, const analysis::ElementId& element, ElementRows& rows) {
  const MsdaCall& call = *loaded.msda();
  const analysis::PixelId pixel = call.pixel_of(element.flat);
  const auto precision = analysis::Precision::of(call.arithmetic());
  const analysis::Contributions contributions(call, call.conventions, pixel.b, pixel.m, pixel.l, precision);
  const auto computed = contributions.computed(pixel.s);
  const auto addends = computed_addends(call, pixel, computed);
  const std::vector<Column> columns = {
      {msda_dialect_name(call.conventions.dialect), call.conventions, MSDA_MODE_DETERMINISTIC},
      {"float64", call.conventions, MSDA_MODE_FLOAT64}};
  double sum = 0;
  for (size_t i = 0; i < computed.size(); ++i) {
    const analysis::SampleId sample{pixel.b, computed[i].q, pixel.m, pixel.l, computed[i].p()};
    const auto wide =
        stage_of_sample(call, call.conventions, sample, MSDA_STAGE_VALUE_CONTRIBUTIONS, MSDA_MODE_FLOAT64);
    sum = analysis::rounded_to(sum + addends[i], call.arithmetic());
    const int64_t within = computed[i].corner() * call.D + pixel.d;
    rows.add(MSDA_STAGE_VALUE_CONTRIBUTIONS,
             fmt::format("query {}, point {}, corner {}", computed[i].q, computed[i].p(),
                         components_of(MSDA_STAGE_INTERPOLATION_WEIGHTS)[static_cast<size_t>(computed[i].corner())]),
             sample.flat(call) * stage_width(call, MSDA_STAGE_VALUE_CONTRIBUTIONS) + within, columns,
             {addends[i], wide[static_cast<size_t>(within)]});
  }
  const auto truth = pixel_element(call, pixel, contributions.exact(pixel.s), precision);
  rows.add(MSDA_STAGE_GRAD_VALUE, "", element.flat, columns, {sum, truth.value});
}

std::string cell_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : fmt::format("{:.9g}", value.get<double>());
}

// How the recorded stage differs from the recomputed one.
std::string recorded_drift_text(const Json& recorded) {
  if (recorded.contains("from_deterministic")) {
    const Json& drift = recorded["from_deterministic"];
    const auto differing = drift["differing"].get<int64_t>();
    if (differing == 0) return "equal to the replay";
    return fmt::format("{} differ{} from the replay, by up to {} ({} ULP)",
                       differing == 1 ? "1 number" : fmt::format("{} numbers", differing), differing == 1 ? "s" : "",
                       cell_of(drift["max_abs"]), drift["max_ulp"].get<uint64_t>());
  }
  if (!recorded.contains("differs_in")) return "";
  const std::vector<std::string> names = recorded["differs_in"];
  return names.empty() ? "equal to the replay, as far as the summary tells"
                       : fmt::format("differs from the replay in {}", fmt::join(names, ", "));
}

}  // namespace

Json stage_summary(const LoadedCall& loaded, const StageTensors& recorded, int threads, Devices& devices,
                   const Progress& progress) {
  const MsdaCall& call = *loaded.msda();
  Json summary = Json::array();
  for (const msda_stage_id stage : kSampleStages) {
    progress.show(fmt::format("stages: {}", msda_stage_name(stage)));
    StageSums sums(stage, recorded, call.arithmetic());
    const int64_t per_query = std::max<int64_t>(1, call.M * call.L * call.P * stage_width(call, stage));
    const int64_t chunk = std::clamp<int64_t>((int64_t{1} << 20) / per_query, 1, std::max<int64_t>(1, call.Q));
    for (int64_t b = 0; b < call.B; ++b) {
      for (int64_t q = 0; q < call.Q; q += chunk) {
        const int64_t count = std::min(chunk, call.Q - q);
        const auto f32 = stage_of_queries(call, call.conventions, b, q, count, stage, MSDA_MODE_DETERMINISTIC, threads);
        const auto f64 = stage_of_queries(call, call.conventions, b, q, count, stage, MSDA_MODE_FLOAT64, threads);
        const int64_t first = (b * call.Q + q) * call.M * call.L * call.P * stage_width(call, stage);
        for (size_t i = 0; i < f32.size(); ++i) sums.add(first + static_cast<int64_t>(i), f32[i], f64[i]);
      }
    }
    summary.push_back(sums.json());
  }
  ReplaySettings settings;
  settings.modes = {MSDA_MODE_DETERMINISTIC};
  settings.threads = threads;
  const Replays replays(loaded, settings, devices,
                        [&](const std::string& step) { progress.show("stages: grad_value, " + step); });
  const analysis::Tensor f32 = replays.others()[0].of(analysis::MsdaGradient::kValue),
                         f64 = replays.float64().of(analysis::MsdaGradient::kValue);
  StageSums sums(MSDA_STAGE_GRAD_VALUE, recorded, f32.dtype);
  for (int64_t i = 0; i < f32.elements(); ++i) sums.add(i, f32.at(i), f64.at(i));
  summary.push_back(sums.json());
  return summary;
}

Json stages_of_element(const LoadedCall& loaded, const StageTensors& recorded, const analysis::ElementId& element,
                       const analysis::Tolerance& tolerance) {
  ElementRows rows{recorded, tolerance};
  if (element.gradient.scattered()) {
    add_pixel_rows(loaded, element, rows);
  } else {
    add_sample_rows(loaded, element, rows);
  }
  return {{"tensor", name_of(element.gradient)},
          {"index", element.index},
          {"stages", std::move(rows.rows)},
          {"first_drift", rows.first_drift ? Json(*rows.first_drift) : Json()}};
}

Lines summary_text(const Json& summary) {
  Lines lines;
  lines.add("  {:<24} {:>11} {:>14} {:>14} {:>10} {:>7} {:>7}  {:>14} {:>12}", "stage, in float32", "numbers", "lowest",
            "highest", "zeros", "NaN", "inf", "max from f64", "max ULP");
  const auto add = [&](const std::string& name, const Json& s, const Json& max_abs, const Json& max_ulp,
                       const std::string& drift) {
    lines.add("  {:<24} {:>11} {:>14} {:>14} {:>10} {:>7} {:>7}  {:>14} {:>12}{}", name, s["count"].get<int64_t>(),
              cell_of(s["lowest"]), cell_of(s["highest"]), s["zero"].get<int64_t>(), s["nan"].get<int64_t>(),
              s["infinite"].get<int64_t>(), cell_of(max_abs), max_ulp.is_null() ? "-" : max_ulp.dump(), drift);
  };
  for (const Json& stage : summary) {
    add(stage["stage"], stage["deterministic"], stage["max_abs"], stage["max_ulp"], "");
    if (!stage.contains("recorded")) continue;
    const Json& kept = stage["recorded"];
    add("  recorded", kept, kept["max_abs"], kept.value("max_ulp", Json()), "  " + recorded_drift_text(kept));
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
