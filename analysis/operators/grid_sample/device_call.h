// grid_sample's backward pass on a GPU.
#pragma once

#include "analysis/model/device_call.h"
#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {

// `function`: that of libmsda, which tests replace on machines without a GPU. It is divided by batch.
DeviceCall device_call_of(const GridSampleCall& call, const msda_options& options, std::span<const Tensor> results,
                          decltype(&msda_cuda_grid_sample_backward) function = msda_cuda_grid_sample_backward);

}  // namespace msda::analysis
