// Computes the intermediate tensors of some samples from the inputs.
#pragma once

#include <vector>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {

// One stage of `count` queries of a batch from q on: the numbers of [count, M, L, P] samples.
std::vector<double> stage_of_queries(const MsdaCall& call, int64_t b, int64_t q, int64_t count, msda_stage_id stage,
                                     msda_mode mode, int threads);

// Returns the numbers of one stage that belong to one sample, in the order of msda_stage_id's shapes: x, y; four
// corners; channels; corner by corner the channels.
std::vector<double> stage_of_sample(const MsdaCall& call, const SampleId& sample, msda_stage_id stage, msda_mode mode);

}  // namespace msda::analysis
