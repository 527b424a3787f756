#include "replay/stages/stage_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/model/dialects.h"
#include "analysis/model/stages.h"
#include "analysis/numbers/compare.h"
#include "recorder/text/words.h"
#include "replay/modes/replays.h"
#include "replay/stages/statistics.h"

namespace msda::replay {

using analysis::Call;
using analysis::Intermediate;
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
  StageSums(size_t stage, const StageTensors& recorded, msda_dtype type)
      : stage_(stage), recorded_(recorded), type_(type) {}

  void add(int64_t flat, double narrow, double wide) {
    narrow_.add(narrow);
    wide_.add(wide);
    drift_.add(narrow, wide, type_);
    const auto kept = recorded_.at(stage_, flat);
    if (!kept) return;
    kept_.add(*kept);
    from_float64_.add(*kept, wide, type_);
    from_replay_.add(analysis::rounded_to(*kept, type_), analysis::rounded_to(narrow, recorded_.of(stage_).dtype),
                     type_);
  }

  Json json() const {
    Json json = {{"stage", recorded_.intermediates()[stage_].name},
                 {"deterministic", narrow_.json()},
                 {"float64", wide_.json()},
                 {"max_abs", number(drift_.max_abs)},
                 {"max_ulp", drift_.max_ulp},
                 {"differing_finiteness", drift_.differing_finiteness}};
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
  size_t stage_;  // among the call's
  const StageTensors& recorded_;
  msda_dtype type_;  // of the float32 numbers
  Statistics narrow_, wide_, kept_;
  Drift drift_, from_float64_, from_replay_;
};

struct Column {
  std::string name;
  std::shared_ptr<const Call> alternative;  // the call in another dialect
  msda_mode mode;

  const analysis::Stages& stages_of(const Call& call) const { return *(alternative ? *alternative : call).stages(); }
};

std::vector<Column> columns_of(const LoadedCall& loaded) {
  const Call& call = loaded.call();
  std::vector<Column> columns;
  const analysis::Dialects* dialects = call.dialects();
  columns.push_back({dialects == nullptr ? "deterministic" : dialects->dialect(), nullptr, MSDA_MODE_DETERMINISTIC});
  std::shared_ptr<const Call> beside;
  if (loaded.reference() != nullptr) {
    beside = loaded.reference()->alternative;
  } else if (dialects != nullptr) {
    beside = dialects->in_dialect_of_tests();
  }
  if (beside) columns.push_back({beside->arithmetic_name(), beside, MSDA_MODE_DETERMINISTIC});
  columns.push_back({"float64", nullptr, MSDA_MODE_FLOAT64});
  return columns;
}

// The rows of one element's table; drift is relative to float64, the last column.
struct ElementRows {
  const StageTensors& recorded;
  const analysis::Tolerance& tolerance;
  Json rows = Json::array();
  std::optional<std::string> first_drift = {};

  // `at` is the stage's index, `flat` the number's in the stage's tensor.
  void add(size_t at, const std::string& component, int64_t flat, const std::vector<Column>& columns,
           const std::vector<double>& values) {
    const Intermediate& stage = recorded.intermediates()[at];
    const auto drifts_from_float64 = [&](double value) {
      return stage.is_exact ? value != values.back() : !tolerance.holds(value, values.back());
    };
    Json row = {{"stage", stage.name}, {"component", component}, {"values", Json::object()}};
    bool drifts = false;
    if (recorded.has_tensors()) {
      const auto kept = recorded.at(at, flat);
      row["values"]["recorded"] = kept ? number(*kept) : Json();
      drifts = kept && drifts_from_float64(*kept);
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      row["values"][columns[i].name] = number(values[i]);
      drifts = drifts || drifts_from_float64(values[i]);
    }
    row["drifts"] = drifts;
    if (drifts && !first_drift) first_drift = stage.name;
    rows.push_back(std::move(row));
  }
};

// The numbers of one stage that belong to one sample, a row of them for each column.
using SampleNumbers = std::vector<std::vector<double>>;

std::vector<double> across(const SampleNumbers& numbers, int64_t at) {
  std::vector<double> values;
  for (const auto& column : numbers) values.push_back(column[static_cast<size_t>(at)]);
  return values;
}

// Adds, of a stage with channels, only the number that is farthest from float64, as the last column.
void add_worst_channel(size_t at, int64_t sample, const std::vector<Column>& columns, const SampleNumbers& numbers,
                       ElementRows& rows) {
  const Intermediate& stage = rows.recorded.intermediates()[at];
  const int64_t width = stage.width(), first = sample * width;
  int64_t worst = 0;
  double most = -1;
  for (int64_t i = 0; i < width; ++i) {
    std::vector<double> values = across(numbers, i);
    const double truth = values.back();
    if (const auto kept = rows.recorded.at(at, first + i)) values.push_back(*kept);
    for (const double value : values) {
      if (!(std::abs(value - truth) > most)) continue;
      most = std::abs(value - truth);
      worst = i;
    }
  }
  if (width == 0) return;
  const std::string& component = stage.components[static_cast<size_t>(worst / *stage.channels)];
  rows.add(at,
           fmt::format("{}{}channel {}, the worst", component, component.empty() ? "" : " ", worst % *stage.channels),
           first + worst, columns, across(numbers, worst));
}

bool is_shown_for(const Intermediate& stage, analysis::Gradient gradient) {
  return std::ranges::find(stage.shown_for, gradient) != stage.shown_for.end();
}

// Returns the sample that an element of a sample's gradient belongs to.
int64_t sample_of(const analysis::ElementId& element, const std::vector<Intermediate>& stages) {
  const auto stage = std::ranges::find(stages, std::optional(element.gradient), &Intermediate::gradient);
  return element.flat / stage->width();
}

void add_sample_rows(const LoadedCall& loaded, const analysis::ElementId& element, ElementRows& rows) {
  const std::vector<Intermediate>& stages = rows.recorded.intermediates();
  const int64_t sample = sample_of(element, stages);
  const auto columns = columns_of(loaded);
  for (size_t at = 0; at < stages.size(); ++at) {
    const Intermediate& stage = stages[at];
    if (!is_shown_for(stage, element.gradient)) continue;
    SampleNumbers numbers;
    for (const Column& column : columns) {
      numbers.push_back(column.stages_of(loaded.call()).numbers_of(stage, sample, 1, column.mode, 1));
    }
    if (stage.channels) {
      add_worst_channel(at, sample, columns, numbers, rows);
      continue;
    }
    for (int64_t i = 0; i < stage.width(); ++i) {
      const int64_t flat = sample * stage.width() + i;
      if (stage.gradient && flat != element.flat) continue;
      rows.add(at, stage.components[static_cast<size_t>(i)], flat, columns, across(numbers, i));
    }
  }
}

// The addends of an element, and what they add up to.
void add_scattered_rows(const LoadedCall& loaded, const analysis::ElementId& element, ElementRows& rows) {
  const Call& call = loaded.call();
  const auto all_columns = columns_of(loaded);
  const std::vector<Column> columns{all_columns.front(), all_columns.back()};
  const auto cache = call.new_cache();
  const std::vector<Intermediate>& stages = rows.recorded.intermediates();
  for (size_t at = 0; at < stages.size(); ++at) {
    const Intermediate& stage = stages[at];
    if (!is_shown_for(stage, element.gradient)) continue;
    if (stage.is_scattered()) {
      std::vector<double> values;
      for (const Column& column : columns) {
        values.push_back(column.stages_of(call).scattered_value(element, column.mode, *cache));
      }
      rows.add(at, "", element.flat, columns, values);
      continue;
    }
    for (const auto& [text, sample, place] : call.stages()->named_addends(element, *cache)) {
      SampleNumbers numbers;
      for (const Column& column : columns) {
        numbers.push_back(column.stages_of(call).numbers_of(stage, sample, 1, column.mode, 1));
      }
      rows.add(at, text, sample * stage.width() + place, columns, across(numbers, place));
    }
  }
}

// Returns how the recorded stage differs from the recomputed one.
std::string recorded_drift_text(const Json& recorded) {
  if (recorded.contains("from_deterministic")) {
    const Json& drift = recorded["from_deterministic"];
    const auto differing = drift["differing"].get<int64_t>();
    if (differing == 0) return "equal to the replay";
    return fmt::format("{} differ{} from the replay, by up to {} ({} ULP)", text::counted(differing, "number"),
                       differing == 1 ? "s" : "", number_text(drift["max_abs"]), drift["max_ulp"].get<uint64_t>());
  }
  if (!recorded.contains("differs_in")) return "";
  const std::vector<std::string> names = recorded["differs_in"];
  return names.empty() ? "equal to the replay, as far as the summary shows"
                       : fmt::format("differs from the replay in {}", fmt::join(names, ", "));
}

}  // namespace

namespace {

// Returns a stage of all samples, in parts.
Json sample_stage_summary(const Call& call, const StageTensors& recorded, size_t at, int threads) {
  const Intermediate& stage = recorded.intermediates()[at];
  StageSums sums(at, recorded, call.arithmetic());
  constexpr int64_t kNumbersOfAPart = int64_t{1} << 20;
  const int64_t part = std::max<int64_t>(1, kNumbersOfAPart / std::max<int64_t>(1, stage.width()));
  const analysis::Stages& stages = *call.stages();
  for (int64_t first = 0; first < stages.sample_count(); first += part) {
    const int64_t count = std::min(part, stages.sample_count() - first);
    const auto f32 = stages.numbers_of(stage, first, count, MSDA_MODE_DETERMINISTIC, threads);
    const auto f64 = stages.numbers_of(stage, first, count, MSDA_MODE_FLOAT64, threads);
    for (size_t i = 0; i < f32.size(); ++i) {
      sums.add(first * stage.width() + static_cast<int64_t>(i), f32[i], f64[i]);
    }
  }
  return sums.json();
}

Json scattered_summary(const LoadedCall& loaded, const StageTensors& recorded, size_t at, int threads, Devices& devices,
                       const Progress& progress) {
  const Intermediate& stage = recorded.intermediates()[at];
  ReplaySettings settings;
  settings.modes = {MSDA_MODE_DETERMINISTIC};
  settings.threads = threads;
  const Replays replays(loaded, settings, devices, [&](const std::string& step) {
    progress.show(fmt::format("stages: {}, {}", stage.name, step));
  });
  const analysis::Tensor f32 = replays.others()[0].of(*stage.gradient), f64 = replays.float64().of(*stage.gradient);
  StageSums sums(at, recorded, f32.dtype);
  for (int64_t i = 0; i < f32.elements(); ++i) sums.add(i, f32.at(i), f64.at(i));
  return sums.json();
}

}  // namespace

Json stage_summary(const LoadedCall& loaded, const StageTensors& recorded, int threads, Devices& devices,
                   const Progress& progress) {
  Json summary = Json::array();
  for (size_t at = 0; at < recorded.intermediates().size(); ++at) {
    const Intermediate& stage = recorded.intermediates()[at];
    progress.show(fmt::format("stages: {}", stage.name));
    summary.push_back(stage.is_scattered() ? scattered_summary(loaded, recorded, at, threads, devices, progress)
                                           : sample_stage_summary(loaded.call(), recorded, at, threads));
  }
  return summary;
}

Json stages_of_element(const LoadedCall& loaded, const StageTensors& recorded, const analysis::ElementId& element,
                       const analysis::Tolerance& tolerance) {
  ElementRows rows{recorded, tolerance};
  if (element.gradient.scattered()) {
    add_scattered_rows(loaded, element, rows);
  } else {
    add_sample_rows(loaded, element, rows);
  }
  return {{"tensor", name_of(element.gradient)},
          {"index", element.index},
          {"stages", std::move(rows.rows)},
          {"first_drift", rows.first_drift ? Json(*rows.first_drift) : Json()}};
}

Lines summary_text(const Json& summary) {
  constexpr int kDigits = 4;
  Lines lines;
  const auto add_row = [&](const auto&... cells) { lines.add("  {:<23} {:>9} {:>10} {:>10} {:>12} {:>8}", cells...); };
  add_row("stage, in float32", "numbers", "lowest", "highest", "from float64", "ULP");
  const auto add = [&](const std::string& name, const Json& s, const Json& max_abs, const Json& max_ulp,
                       std::string notes) {
    add_row(name, count_at(s, "count"), number_text(s["lowest"], kDigits), number_text(s["highest"], kDigits),
            number_text(max_abs, kDigits), max_ulp.is_null() ? "-" : number_text(max_ulp, 6));
    for (const auto& [member, noun] : {std::pair{"zero", "zero"}, {"nan", "NaN"}, {"infinite", "infinite"}}) {
      if (count_at(s, member) > 0) notes += fmt::format("{}{} {}", notes.empty() ? "" : "; ", s[member], noun);
    }
    if (!notes.empty()) lines.add("      {}", notes);
  };
  for (const Json& stage : summary) {
    add(stage["stage"], stage["deterministic"], stage["max_abs"], stage["max_ulp"], "");
    if (!stage.contains("recorded")) continue;
    const Json& kept = stage["recorded"];
    add("  recorded", kept, kept["max_abs"], kept.value("max_ulp", Json()), recorded_drift_text(kept));
  }
  return lines;
}

Lines element_text(const Json& element) {
  Lines lines;
  std::vector<int64_t> index = element["index"];
  lines.blank();
  lines.add("  {}[{}]", element["tensor"], fmt::join(index, ","));
  for (const Json& row : element["stages"]) {
    std::string names, values;
    for (const auto& [name, value] : row["values"].items()) {
      const bool is_wide = name == "float64";
      const int width = is_wide ? 21 : 17;
      names += fmt::format(" {:>{}}", name, width);
      values += fmt::format(" {:>{}}", number_text(value, is_wide ? 15 : 9), width);
    }
    if (&row == &element["stages"].front()) lines.add("    {}", names);
    const std::string component = text_at(row, "component");
    lines.add("    {}{}{}{}", row["stage"], component.empty() ? "" : ", ", component,
              row["drifts"] ? "  <- drifts" : "");
    lines.add("    {}", values);
  }
  const Json& drift = element["first_drift"];
  lines.add("    first drift: {}", drift.is_null() ? "none" : drift.get<std::string>());
  return lines;
}

}  // namespace msda::replay
