// Computes the intermediate tensors of some samples from the inputs.
#pragma once

#include <vector>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {

// How many numbers of a stage belong to one sample; 0 for MSDA_STAGE_GRAD_VALUE.
int64_t stage_width(const MsdaCall& call, msda_stage_id stage);

// One stage of `count` queries of a batch from q on: [count, M, L, P] samples of stage_width numbers each.
std::vector<double> stage_of_queries(const MsdaCall& call, const Conventions& conventions, int64_t b, int64_t q,
                                     int64_t count, msda_stage_id stage, msda_mode mode, int threads);

// The numbers of one stage that belong to one sample, in the order of msda_stage_id's shapes: x, y; four corners;
// channels; corner by corner the channels.
std::vector<double> stage_of_sample(const MsdaCall& call, const Conventions& conventions, const SampleId& sample,
                                    msda_stage_id stage, msda_mode mode);

}  // namespace msda::analysis
