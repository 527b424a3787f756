// The operator on a GPU, for each type of the inputs and of the arithmetic.
#pragma once

#include <vector>

#include "kernels/cuda/problem.h"
#include "kernels/cuda/work.h"

namespace msda::kernels::cuda {

template <class Stored, class Real>
struct Operator {
  // Both throw CudaError or std::bad_alloc. `problem.levels` is filled in here.
  static void forward(Problem<Stored> problem, const std::vector<Level>& levels, Result output, Work& work);
  // Results without data are skipped. With `atomic`, grad_value is summed in the order in which the additions arrive.
  static void backward(Problem<Stored> problem, const std::vector<Level>& levels, bool atomic, Result grad_value,
                       Result grad_locations, Result grad_weights, Work& work);
};

// Widens or copies any strided tensor into contiguous memory of type Real, or, as uint16_t, one of 16 bits as it is;
// NaN keep their bits.
template <class Real>
void make_contiguous(const msda_tensor& from, Real* to, Work& work);
// Converts back, rounding once.
template <class Real>
void spread(const Real* from, const msda_tensor& to, Work& work);

}  // namespace msda::kernels::cuda
