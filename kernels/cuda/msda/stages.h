// The stages of the backward pass on a GPU, each in float32 or float64 as requested; the mode `mixed` uses them.
#pragma once

#include <vector>

#include "kernels/checked/call.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/work.h"
#include "kernels/cuda/msda/problem.h"

namespace msda::kernels::cuda {

// Adds the wanted stages, those with results[stage] not null, to a call's work. The caller has checked everything
// except the device. Throws Unavailable, CudaError or std::bad_alloc.
void stages(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output, uint32_t float64_stages,
            const msda_tensor* const results[MSDA_STAGE_COUNT], Work& work);

// Contiguous results by stage.
struct StageResults {
  Result of[MSDA_STAGE_COUNT];
};

// The same for contiguous tensors. In: float or double; with double all stages should be in float64. Fills in
// `problem.levels`.
template <class In>
void trace(Problem<In> problem, const std::vector<Level>& levels, uint32_t float64_stages, const StageResults& results,
           Work& work);

}  // namespace msda::kernels::cuda
