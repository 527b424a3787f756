// Tensors as the analysis sees them: views of memory, read element by element as float64, which holds every value of
// every type exactly.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/elements.h"
#include "kernels/names.h"
#include "kernels/walk.h"

namespace msda::analysis {

using Index = std::vector<int64_t>;

// Row-major and contiguous. A default-constructed one has no data: the side does not have the tensor.
struct Tensor {
  const void* data = nullptr;
  msda_dtype dtype = MSDA_FLOAT32;
  Index shape;

  explicit operator bool() const { return data != nullptr; }

  int64_t elements() const { return kernels::elements_of(shape); }

  double at(int64_t flat) const {
    if (dtype == MSDA_FLOAT32) return static_cast<const float*>(data)[flat];  // inlined: most elements are read here
    if (dtype == MSDA_INT32) return static_cast<const int32_t*>(data)[flat];
    if (dtype == MSDA_INT64) return static_cast<double>(static_cast<const int64_t*>(data)[flat]);
    if (dtype == kernels::kUInt8) return static_cast<const uint8_t*>(data)[flat];
    return kernels::visit_dtype(
        dtype, [&](const auto* x) -> double { return kernels::widen(x[flat]); }, data);
  }

  // Reads to.size() elements of a floating-point type, `step` apart.
  void read(int64_t first, int64_t step, std::span<double> to) const {
    kernels::visit_dtype(
        dtype,
        [&](const auto* x) {
          for (size_t i = 0; i < to.size(); ++i) to[i] = kernels::widen(x[first + static_cast<int64_t>(i) * step]);
        },
        data);
  }

  Index index_of(int64_t flat) const { return kernels::index_of(shape, flat); }
};

inline bool is_16_bits(msda_dtype type) { return type == MSDA_FLOAT16 || type == MSDA_BFLOAT16; }

// The rounding properties of a floating-point type.
struct Precision {
  int bits;     // of the significand, the hidden one included
  double unit;  // largest relative error of one rounding, 2^-bits
  double tiny;  // largest error of a rounding that underflows: half the smallest subnormal (the whole, for float64); of
                // float32, whose atomics on GPUs flush subnormals to zero (RED.ADD.F32.FTZ), the smallest normal number
  double largest;  // largest finite number

  double smallest_normal() const { return 4 / largest; }

  static Precision of(msda_dtype dtype) {
    switch (dtype) {
      case MSDA_FLOAT16:
        return {11, 0x1p-11, 0x1p-25, 65504};
      case MSDA_BFLOAT16:
        return {8, 0x1p-8, 0x1p-134, 0x1.fep127};
      case MSDA_FLOAT64:
        return {53, 0x1p-53, 0x1p-1074, 0x1.fffffffffffffp1023};
      default:
        return {24, 0x1p-24, 0x1p-126, 0x1.fffffep127};
    }
  }
};

// Returns the type that a kernel on these inputs computes in: 16-bit types are storage.
inline msda_dtype arithmetic_of(msda_dtype storage) { return storage == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32; }

// Runs run(Real{}) in this arithmetic: double, or float for all other types.
template <class Run>
auto with_arithmetic(msda_dtype type, Run&& run) {
  return type == MSDA_FLOAT64 ? run(double{}) : run(float{});
}

// x rounded to nearest even in `dtype`.
inline double rounded_to(double x, msda_dtype dtype) {
  if (dtype == MSDA_FLOAT32) return static_cast<float>(x);  // inlined: sums of many addends are rounded here
  return kernels::visit_dtype(dtype,
                              [&]<class T>(const T*) -> double { return kernels::widen(kernels::narrow<T>(x)); });
}

// Stores x, rounded to nearest even, as element `flat` of a tensor of floating-point type.
inline void store(void* data, msda_dtype dtype, int64_t flat, double x) {
  kernels::visit_dtype(dtype, [&]<class T>(const T*) { static_cast<T*>(data)[flat] = kernels::narrow<T>(x); });
}

}  // namespace msda::analysis
