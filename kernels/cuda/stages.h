// The stages of the backward pass on a GPU, each in float32 or float64 as asked, and with them the mode `mixed`.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/checked_call.h"
#include "kernels/cuda/problem.h"

namespace msda::kernels::cuda {

// Puts the stages that are wanted, results[stage] not null, onto a stream. All has been checked but the device. Throws
// Unavailable, CudaError or std::bad_alloc.
void stages(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output, uint32_t float64_stages,
            const msda_tensor* const results[MSDA_STAGE_COUNT], cudaStream_t stream);

// Contiguous results by stage.
struct StageResults {
  Result of[MSDA_STAGE_COUNT];
};

// The same of contiguous tensors. In: float or double; with double all stages should be in float64. `problem.levels` is
// filled in here.
template <class In>
void trace(Problem<In> problem, const std::vector<Level>& levels, uint32_t float64_stages, const StageResults& results,
           cudaStream_t stream);

}  // namespace msda::kernels::cuda
