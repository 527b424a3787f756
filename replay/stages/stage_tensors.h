// The recorded stages of a call, in memory, to be shown beside the recomputed ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/model/side.h"
#include "analysis/model/stages.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/stages/statistics.h"

namespace msda::replay {

// By the index of the stage among analysis::Stages::intermediates().
class StageTensors {
 public:
  // Reads every recorded stage tensor; for a gradient without one, takes that of `outputs`. Throws BadInput for one
  // that does not fit the call, and as refuse_altered() does.
  StageTensors(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation,
               const analysis::Call& call, const analysis::Side& outputs);

  const std::vector<analysis::Intermediate>& intermediates() const { return intermediates_; }
  bool has_tensors() const;
  // Without data if only the stage's summary, or nothing, was recorded.
  const analysis::Tensor& of(size_t stage) const { return stages_[stage].tensor; }
  const std::optional<capture::StageFacts>& summary(size_t stage) const { return stages_[stage].facts; }
  std::optional<double> at(size_t stage, int64_t flat) const;
  const std::vector<std::string>& altered() const { return altered_; }

 private:
  struct Stage {
    analysis::Tensor tensor;
    std::optional<capture::StageFacts> facts;
  };
  std::vector<analysis::Intermediate> intermediates_;
  std::vector<Stage> stages_;
  std::vector<capture::Tensor> memory_;
  std::vector<std::string> altered_;
};

// Returns a recorded summary as Statistics.
Statistics statistics_of(const capture::StageSummary& summary);

}  // namespace msda::replay
