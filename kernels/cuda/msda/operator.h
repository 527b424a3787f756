// The operator on a GPU, for each type of the inputs and of the arithmetic.
#pragma once

#include <vector>

#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/work.h"
#include "kernels/cuda/msda/problem.h"

namespace msda::kernels::cuda {

template <class Stored, class Real>
struct Operator {
  // Both throw CudaError or std::bad_alloc. `problem.levels` is filled in here.
  static void forward(Problem<Stored> problem, const std::vector<Level>& levels, Result output, Work& work);
  // Results without data are skipped. With `atomic`, grad_value is summed in the order in which the additions arrive.
  static void backward(Problem<Stored> problem, const std::vector<Level>& levels, bool atomic, Result grad_value,
                       Result grad_locations, Result grad_weights, Work& work);
};

}  // namespace msda::kernels::cuda
