// The recorded stages of a call, in memory, to be shown beside the recomputed ones.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "analysis/operators/msda/call.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/stages/statistics.h"

namespace msda::replay {

class StageTensors {
 public:
  // Reads every recorded stage tensor. Throws BadInput for one that does not fit the call, and as refuse_altered()
  // does.
  StageTensors(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation,
               const analysis::MsdaCall& call);

  bool has_tensors() const { return !memory_.empty(); }
  // Without data if only the stage's summary, or nothing, was recorded.
  const analysis::Tensor& of(msda_stage_id stage) const { return stages_[stage].tensor; }
  const std::optional<capture::StageFacts>& summary(msda_stage_id stage) const { return stages_[stage].facts; }
  std::optional<double> at(msda_stage_id stage, int64_t flat) const;
  const std::vector<std::string>& altered() const { return altered_; }

 private:
  struct Stage {
    analysis::Tensor tensor;
    std::optional<capture::StageFacts> facts;
  };
  std::array<Stage, MSDA_STAGE_COUNT> stages_;
  std::vector<capture::Tensor> memory_;
  std::vector<std::string> altered_;
};

// A recorded summary as Statistics.
Statistics statistics_of(const capture::StageSummary& summary);

}  // namespace msda::replay
