// Deformable attention's backward pass on a GPU.
#pragma once

#include "analysis/model/device_call.h"
#include "analysis/operators/msda/call.h"

namespace msda::analysis {

// `function`: that of libmsda, which tests replace on machines without a GPU. It is divided by batch, then by head.
DeviceCall device_call_of(const MsdaCall& call, const msda_options& options, std::span<const Tensor> results,
                          decltype(&msda_cuda_backward) function = msda_cuda_backward);

}  // namespace msda::analysis
