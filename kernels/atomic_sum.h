// An addition as a GPU's atomic additions to memory make it.
#pragma once

#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

// Atomic additions (RED.ADD.F32.FTZ) turn a subnormal float32, as operand or as sum, into zero of its sign. Float64
// additions keep subnormals. tests/gpu/subnormals.cu measures both.
inline float flushed(float x) { return ::fabsf(x) < 0x1p-126f ? ::copysignf(0.0f, x) : x; }
inline double flushed(double x) { return x; }

template <class Real>
inline Real atomic_sum(Real sum, Real addend) {
  return flushed(flushed(sum) + flushed(addend));
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
