// Launches sequences of kernels as CUDA graphs, which are kept for later calls.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/sequence.h"

namespace msda::kernels::cuda {

// The stream must not be captured. Returns false if there can be no graph: then nothing is enqueued.
bool launch_as_graph(Sequence& sequence, cudaStream_t stream);

}  // namespace msda::kernels::cuda
