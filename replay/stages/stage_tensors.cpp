#include "replay/stages/stage_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "replay/base/errors.h"
#include "replay/calls/damage.h"

namespace msda::replay {
namespace {

int64_t numbers_of(const analysis::Call& call, const analysis::Intermediate& stage) {
  if (!stage.is_scattered()) return call.stages()->sample_count() * stage.width();
  return kernels::elements_of(call.shape_of(*stage.gradient));
}

}  // namespace

StageTensors::StageTensors(const Options& options, const capture::IsolatedReader& reader,
                           const capture::Invocation& invocation, const analysis::Call& call,
                           const analysis::Side& outputs)
    : intermediates_(call.stages() == nullptr ? std::vector<analysis::Intermediate>() : call.stages()->intermediates()),
      stages_(intermediates_.size()) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const analysis::Intermediate& stage = intermediates_[i];
    const auto kept = std::ranges::find(invocation.stages, stage.name, &capture::Invocation::Stage::name);
    if (kept == invocation.stages.end()) {
      if (stage.gradient) stages_[i].tensor = outputs.of(*stage.gradient);
      continue;
    }
    stages_[i].facts = kept->facts;
    if (!kept->full) continue;
    const capture::TensorInfo& info = *kept->full;
    if (info.elements() != numbers_of(call, stage)) {
      throw BadInput(fmt::format("{}: {} has {} numbers, not the {} of its call", reader.path(), info.path,
                                 info.elements(), numbers_of(call, stage)));
    }
    memory_.push_back(reader.read(info));
    if (is_altered(memory_.back())) altered_.push_back(info.path);
    stages_[i].tensor = {memory_.back().data.get(), info.type, info.shape};
  }
  refuse_altered(options, altered_);
}

bool StageTensors::has_tensors() const {
  return std::ranges::any_of(stages_, [](const Stage& stage) { return static_cast<bool>(stage.tensor); });
}

std::optional<double> StageTensors::at(size_t stage, int64_t flat) const {
  const analysis::Tensor& tensor = of(stage);
  if (!tensor) return std::nullopt;
  return tensor.at(flat);
}

Statistics statistics_of(const capture::StageSummary& summary) {
  Statistics statistics;
  statistics.count = summary.count;
  statistics.nan = summary.nan;
  statistics.infinite = summary.positive_infinite + summary.negative_infinite;
  statistics.zero = summary.zeros;
  if (summary.minimum) statistics.lowest = summary.minimum->value;
  if (summary.maximum) statistics.highest = summary.maximum->value;
  return statistics;
}

}  // namespace msda::replay
