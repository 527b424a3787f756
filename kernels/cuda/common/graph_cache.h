// Launches sequences of kernels as CUDA graphs, which are kept for later calls.
#pragma once

#include "kernels/cuda/common/sequence.h"
#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {

// Requires target.can_keep(). Returns false, with nothing enqueued, if no graph can be made.
bool launch_as_graph(Sequence& sequence, Target& target);

}  // namespace msda::kernels::cuda
