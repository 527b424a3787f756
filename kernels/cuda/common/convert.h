// Strided tensors of any floating-point type to contiguous ones of the arithmetic's type, and back.
#pragma once

#include "kernels/cuda/common/work.h"
#include "kernels/msda.h"

namespace msda::kernels::cuda {

// Widens or copies any strided tensor into contiguous memory of type Real, or, as uint16_t, one of 16 bits as it is;
// NaN keep their bits.
template <class Real>
void make_contiguous(const msda_tensor& from, Real* to, Work& work);
// Converts back, rounding once.
template <class Real>
void spread(const Real* from, const msda_tensor& to, Work& work);

}  // namespace msda::kernels::cuda
