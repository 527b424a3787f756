// Fills memory with zeros.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/work.h"

namespace msda::kernels::cuda {

// Clears by a kernel: in a CUDA graph, which is launched again and again, a memset may not change its size.
void clear(void* data, int64_t bytes, Work& work);

}  // namespace msda::kernels::cuda
