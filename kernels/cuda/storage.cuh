// Elements of tensors to and from the arithmetic's type. Widening is exact; narrowing is one rounding to nearest even;
// every NaN gets the same bits, as which one an operation makes is up to the processor.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/msda.h"

namespace msda::kernels::cuda {

__device__ inline float widened(__half x) { return __half2float(x); }
__device__ inline float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widened(float x) { return x; }
__device__ inline double widened(double x) { return x; }

// Rounding to nearest even in one step, also from double.
template <class Stored, class Real>
__device__ inline Stored narrowed(Real x);
template <>
__device__ inline float narrowed<float>(float x) {
  return x == x ? x : __int_as_float(0x7fc00000);
}
template <>
__device__ inline double narrowed<double>(double x) {
  return x == x ? x : __longlong_as_double(0x7ff8000000000000);
}
template <>
__device__ inline double narrowed<double>(float x) {
  return narrowed<double>(static_cast<double>(x));
}
template <>
__device__ inline float narrowed<float>(double x) {
  return narrowed<float>(__double2float_rn(x));
}
template <>
__device__ inline __half narrowed<__half>(float x) {
  return x == x ? __float2half_rn(x) : __ushort_as_half(0x7e00);
}
template <>
__device__ inline __half narrowed<__half>(double x) {
  return x == x ? __double2half(x) : __ushort_as_half(0x7e00);
}
template <>
__device__ inline __nv_bfloat16 narrowed<__nv_bfloat16>(float x) {
  return x == x ? __float2bfloat16_rn(x) : __ushort_as_bfloat16(0x7fc0);
}
template <>
__device__ inline __nv_bfloat16 narrowed<__nv_bfloat16>(double x) {
  return x == x ? __double2bfloat16(x) : __ushort_as_bfloat16(0x7fc0);
}

template <class Stored>
struct alignas(4 * sizeof(Stored)) Four {
  Stored at[4];
};

// Four channels of a row from `channel` on, of which `count` exist; the others are 0. kWhole: all four, aligned.
template <bool kWhole, class Real, class Stored>
__device__ inline void load_four(const Stored* row, int count, Real (&to)[4]) {
  if constexpr (kWhole) {
    const Four<Stored> four = *reinterpret_cast<const Four<Stored>*>(row);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = static_cast<Real>(widened(four.at[i]));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = i < count ? static_cast<Real>(widened(row[i])) : Real(0);
  }
}

template <bool kWhole, class Stored, class Real>
__device__ inline void store_four_as(Stored* row, int count, const Real (&from)[4]) {
  if constexpr (kWhole) {
    Four<Stored> four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four.at[i] = narrowed<Stored>(from[i]);
    *reinterpret_cast<Four<Stored>*>(row) = four;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) row[i] = narrowed<Stored>(from[i]);
    }
  }
}

// Four channels of a result, from element `index` on.
template <bool kWhole, class Real>
__device__ inline void store_four(void* data, msda_dtype dtype, int64_t index, int count, const Real (&from)[4]) {
  switch (dtype) {
    case MSDA_FLOAT16:
      return store_four_as<kWhole>(static_cast<__half*>(data) + index, count, from);
    case MSDA_BFLOAT16:
      return store_four_as<kWhole>(static_cast<__nv_bfloat16*>(data) + index, count, from);
    case MSDA_FLOAT64:
      return store_four_as<kWhole>(static_cast<double*>(data) + index, count, from);
    default:
      return store_four_as<kWhole>(static_cast<float*>(data) + index, count, from);
  }
}

template <class Real>
__device__ inline void store_one(void* data, msda_dtype dtype, int64_t index, Real x) {
  switch (dtype) {
    case MSDA_FLOAT16:
      static_cast<__half*>(data)[index] = narrowed<__half>(x);
      return;
    case MSDA_BFLOAT16:
      static_cast<__nv_bfloat16*>(data)[index] = narrowed<__nv_bfloat16>(x);
      return;
    case MSDA_FLOAT64:
      static_cast<double*>(data)[index] = narrowed<double>(x);
      return;
    default:
      static_cast<float*>(data)[index] = narrowed<float>(x);
  }
}

template <class Stored>
struct alignas(2 * sizeof(Stored)) Two {
  Stored at[2];
};
template <class Stored>
__device__ inline bool is_aligned_for_two(const Stored* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Two<Stored>) == 0;
}

// Elements 2 * index and 2 * index + 1.
template <class Stored, class Real>
__device__ inline void store_two_as(void* data, int64_t index, Real x, Real y) {
  auto* to = static_cast<Stored*>(data) + 2 * index;
  if (is_aligned_for_two(static_cast<const Stored*>(data))) {
    *reinterpret_cast<Two<Stored>*>(to) = {{narrowed<Stored>(x), narrowed<Stored>(y)}};
  } else {
    to[0] = narrowed<Stored>(x);
    to[1] = narrowed<Stored>(y);
  }
}
template <class Real>
__device__ inline void store_two(void* data, msda_dtype dtype, int64_t index, Real x, Real y) {
  switch (dtype) {
    case MSDA_FLOAT16:
      return store_two_as<__half>(data, index, x, y);
    case MSDA_BFLOAT16:
      return store_two_as<__nv_bfloat16>(data, index, x, y);
    case MSDA_FLOAT64:
      return store_two_as<double>(data, index, x, y);
    default:
      return store_two_as<float>(data, index, x, y);
  }
}

}  // namespace msda::kernels::cuda
