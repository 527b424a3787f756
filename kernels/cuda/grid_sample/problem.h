// A call of grid_sample as the CUDA kernels take it: contiguous tensors of one floating-point type in device memory.
#pragma once

#include "kernels/cpu/grid_table.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/work.h"

namespace msda::kernels::cuda {

template <class Stored>
struct GridCall : cpu::GridConventions {
  int64_t N, C, pixels, samples;
  int32_t sides[3];           // of the image: width, height, depth
  const Stored* input;        // [N, C, pixels]
  const Stored* grid;         // [N, samples, axes]
  const Stored* grad_output;  // [N, C, samples]
};

template <class Stored, class Real>
struct GridOperator {
  // Bilinear or nearest interpolation. Results without data are skipped. With `atomic`, grad_input is summed in the
  // order in which the additions arrive, and must be of type Real. Throws CudaError or std::bad_alloc.
  static void backward(const GridCall<Stored>& call, int axes, bool atomic, Result grad_input, Result grad_grid,
                       Work& work);
};

}  // namespace msda::kernels::cuda
