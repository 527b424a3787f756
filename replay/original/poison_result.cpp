#include "replay/original/poison_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/causes/finding.h"
#include "analysis/numbers/tensor.h"
#include "kernels/walk.h"
#include "replay/base/json.h"

namespace msda::replay {

using analysis::number;
using State = PoisonOutcome::State;

namespace {

const char* name_of(State state) {
  return state == State::kRan ? "ran" : state == State::kFaulted ? "faulted" : "hung";
}

// "grad_value zero", "as recorded"
std::string setting_words(const PoisonSetting& setting) {
  if (setting.memory == PoisonSetting::Memory::kNone) return "as recorded";
  const bool nan = setting.contents == PoisonSetting::Contents::kNan;
  return fmt::format("{} {}", setting.name, nan ? "NaN" : name_of(setting.contents));
}

std::string range_of(const PoisonTensor::Value& value) {
  const auto text = [](double x) { return std::isnan(x) ? "NaN" : fmt::format("{:.9g}", x); };
  const std::string lowest = text(value.lowest), highest = text(value.highest);
  return lowest == highest ? lowest : fmt::format("{} to {}", lowest, highest);
}

// "[3]: 0.5 as recorded, NaN with y NaN": the settings that give the same are left out.
std::string example_of(const PoisonResult& result, const PoisonTensor& tensor) {
  constexpr size_t kMostListed = 4;
  std::vector<std::string> texts, ranges;
  for (const PoisonTensor::Value& value : tensor.values) {
    const std::string range = range_of(value);
    if (texts.size() == kMostListed || std::ranges::find(ranges, range) != ranges.end()) continue;
    ranges.push_back(range);
    const PoisonSetting& setting = result.settings[value.setting].setting;
    texts.push_back(fmt::format("{} {}{}", range, setting.memory == PoisonSetting::Memory::kNone ? "" : "with ",
                                setting_words(setting)));
  }
  return fmt::format("[{}]: {}", fmt::join(kernels::index_of(tensor.shape, *tensor.example), ","),
                     fmt::join(texts, ", "));
}

}  // namespace

const char* name_of(PoisonVerdict verdict) {
  switch (verdict) {
    case PoisonVerdict::kDeterministic:
      return "deterministic";
    case PoisonVerdict::kOrderOnly:
      return "order_only";
    case PoisonVerdict::kReadsUnwritten:
      return "reads_unwritten";
    case PoisonVerdict::kRace:
      return "race";
  }
  return "";
}

PoisonVerdict PoisonResult::verdict() const {
  PoisonVerdict worst = PoisonVerdict::kDeterministic;
  for (const PoisonTensor& tensor : tensors) worst = std::max(worst, tensor.verdict);
  for (const PoisonOutcome& outcome : settings) {
    if (outcome.state != State::kRan) worst = std::max(worst, PoisonVerdict::kReadsUnwritten);
  }
  return worst;
}

nlohmann::ordered_json to_json(const PoisonResult& result) {
  Json json = {{"verdict", name_of(result.verdict())},
               {"runs", result.runs},
               {"settings", Json::array()},
               {"tensors", Json::object()}};
  for (const auto& [setting, state, message] : result.settings) {
    const bool none = setting.memory == PoisonSetting::Memory::kNone;
    Json entry = {{"memory", none ? Json() : Json(setting.name)},
                  {"contents", name_of(setting.contents)},
                  {"state", name_of(state)}};
    if (!message.empty()) entry["message"] = message;
    json["settings"].push_back(std::move(entry));
  }
  for (const PoisonTensor& tensor : result.tensors) {
    Json entry = {{"verdict", name_of(tensor.verdict)},
                  {"why", tensor.why},
                  {"varies_across", tensor.varies_across},
                  {"across", tensor.across},
                  {"varies_within", tensor.varies_within},
                  {"within", tensor.within},
                  {"spread", number(tensor.spread)},
                  {"never_written", tensor.never_written},
                  {"adds", tensor.adds},
                  {"adds_to_nonzero", tensor.adds_to_nonzero}};
    if (tensor.orders) {
      entry["orders"] = {{"pixels", tensor.orders->pixels},
                         {"explained", tensor.orders->explained},
                         {"impossible", tensor.orders->impossible}};
    }
    if (tensor.example) {
      Json values = Json::array();
      for (const auto& [setting, lowest, highest] : tensor.values) {
        values.push_back({{"setting", setting}, {"lowest", number(lowest)}, {"highest", number(highest)}});
      }
      entry["example"] = {{"index", kernels::index_of(tensor.shape, *tensor.example)}, {"values", std::move(values)}};
    }
    json["tensors"][tensor.name] = std::move(entry);
  }
  json["atomics"] = to_json(result.atomics);
  return json;
}

Lines to_text(const PoisonResult& result) {
  constexpr size_t kName = 29;  // columns of a tensor's name and its indentation
  Lines lines;
  lines.add("  poison: {}: {} settings, {} launches in each", name_of(result.verdict()), result.settings.size(),
            result.runs);
  for (const PoisonOutcome& outcome : result.settings) {
    if (outcome.state == State::kRan) continue;
    lines.add("    with {} the kernel {}: {}", setting_words(outcome.setting),
              outcome.state == State::kFaulted ? "faulted" : "did not end", outcome.message);
  }
  for (const PoisonTensor& tensor : result.tensors) {
    lines.add_hanging(kName, "    {:<24} {}{}{}", tensor.name, name_of(tensor.verdict), tensor.why.empty() ? "" : ": ",
                      tensor.why);
    if (tensor.example) lines.add("{:{}}{}", "", kName + 2, example_of(result, tensor));
    if (tensor.adds > tensor.adds_to_nonzero) {
      lines.add("{:{}}it adds to {} elements, which were zero when it was recorded", "", kName + 2,
                tensor.adds - tensor.adds_to_nonzero);
    }
    if (tensor.never_written > 0) lines.add("{:{}}it never writes {} elements", "", kName + 2, tensor.never_written);
  }
  const auto varies = [](const PoisonTensor& tensor) { return tensor.within > 0; };
  if (std::ranges::any_of(result.tensors, varies)) lines.append(to_text(result.atomics, 4));
  return lines;
}

}  // namespace msda::replay
