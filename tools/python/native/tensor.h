// A tensor of Python, as an msda_tensor and where it is.
#pragma once

#include "kernels/msda.h"
#include "tools/python/native/python.h"

namespace msda::python {

// Where a tensor is.
inline constexpr int kHost = -1;

struct Tensor {
  msda_tensor of{};
  int device = kHost;  // or the number of its GPU
  bool is_integer() const { return of.dtype == MSDA_INT32 || of.dtype == MSDA_INT64; }
};

}  // namespace msda::python
