// Numbers of a few planes at one place, which a thread sums up with the same weights.
#pragma once

#include "kernels/sample.h"

namespace msda::kernels::cuda {

template <class Real, int kCount>
struct Several {
  Real at[kCount];
};
template <class Real, int kCount>
MSDA_HOST_DEVICE inline Several<Real, kCount> operator*(Real weight, const Several<Real, kCount>& x) {
  Several<Real, kCount> product;
#pragma unroll
  for (int i = 0; i < kCount; ++i) product.at[i] = weight * x.at[i];
  return product;
}
template <class Real, int kCount>
MSDA_HOST_DEVICE inline Several<Real, kCount> fma(Real weight, const Several<Real, kCount>& x,
                                                  const Several<Real, kCount>& sum) {
  Several<Real, kCount> fused;
#pragma unroll
  for (int i = 0; i < kCount; ++i) fused.at[i] = kernels::fma(weight, x.at[i], sum.at[i]);
  return fused;
}

}  // namespace msda::kernels::cuda
