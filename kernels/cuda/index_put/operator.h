// index_put on a GPU, of a checked call.
#pragma once

#include "kernels/cuda/common/work.h"
#include "kernels/index_put.h"

namespace msda::kernels::cuda {

// Takes at least one row, of at least one byte, and one number in the index. Throws CudaError or std::bad_alloc.
void index_put(const msda_index_put_call& call, Work& work);

}  // namespace msda::kernels::cuda
