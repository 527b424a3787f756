// Elements of tensors to and from the arithmetic's type. Widening is exact; narrowing is one rounding to nearest even;
// every NaN gets the same bits, because processors differ in the NaN that an operation produces.
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

// Rounds to nearest even in one step, also from double.
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

// Reads four channels of a row from `channel` on, of which `count` exist; the others are 0. kWhole: all four, aligned.
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

// Calls use(pointer) with the pointer to the elements' type.
template <class Use>
__device__ inline void visit_elements(void* data, msda_dtype dtype, Use&& use) {
  if (dtype == MSDA_FLOAT32)
    return use(static_cast<float*>(data));  // the most frequent type: each test costs time in the inner loops
  switch (dtype) {
    case MSDA_FLOAT16:
      return use(static_cast<__half*>(data));
    case MSDA_BFLOAT16:
      return use(static_cast<__nv_bfloat16*>(data));
    default:
      return use(static_cast<double*>(data));
  }
}

// Writes four channels of a result, from element `index` on.
template <bool kWhole, class Real>
__device__ inline void store_four(void* data, msda_dtype dtype, int64_t index, int count, const Real (&from)[4]) {
  visit_elements(data, dtype, [&](auto* to) { store_four_as<kWhole>(to + index, count, from); });
}

template <class Real>
__device__ inline void store_one(void* data, msda_dtype dtype, int64_t index, Real x) {
  visit_elements(data, dtype, [&]<class Stored>(Stored* to) { to[index] = narrowed<Stored>(x); });
}

template <class Stored>
struct alignas(2 * sizeof(Stored)) Two {
  Stored at[2];
};
template <class Stored>
__device__ inline bool is_aligned_for_two(const Stored* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Two<Stored>) == 0;
}

// Writes elements 2 * index and 2 * index + 1.
template <class Real>
__device__ inline void store_two(void* data, msda_dtype dtype, int64_t index, Real x, Real y) {
  visit_elements(data, dtype, [&]<class Stored>(Stored* to) {
    const Two<Stored> two{{narrowed<Stored>(x), narrowed<Stored>(y)}};
    if (is_aligned_for_two(to)) {
      reinterpret_cast<Two<Stored>*>(to)[index] = two;
    } else {
      to[2 * index] = two.at[0];
      to[2 * index + 1] = two.at[1];
    }
  });
}

}  // namespace msda::kernels::cuda
