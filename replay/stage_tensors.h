// The stages that a recording kept of a call, in memory: to be shown beside those that are computed anew.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "analysis/call.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/options.h"
#include "replay/statistics.h"

namespace msda::replay {

class StageTensors {
 public:
  // Reads every tensor that there is of a stage. Throws BadInput of those that do not fit the call, and as
  // refuse_altered() does.
  StageTensors(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation,
               const analysis::Call& call);

  bool has_tensors() const { return !memory_.empty(); }
  // Without data, if the recording has only the stage's summary, or nothing.
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

// What a recorded summary says, in the same terms as a tensor's numbers are counted here.
Statistics statistics_of(const capture::StageSummary& summary);

}  // namespace msda::replay
