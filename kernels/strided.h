// Where the elements of a strided tensor are.
#pragma once

#include <cstdint>

#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

// Returns whether the elements lie one after the other, row-major.
inline bool is_contiguous(const msda_tensor& tensor) {
  int64_t expected = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.stride[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Returns the offset of element number `flat`, counted row-major, from the tensor's data.
MSDA_HOST_DEVICE inline int64_t offset_of(const msda_tensor& tensor, int64_t flat) {
  int64_t offset = 0;
#if defined(__CUDACC__)
#pragma unroll 1  // unrolled, its divisions would be most of a kernel's instructions
#endif
  for (int i = tensor.rank - 1; i >= 0; --i) {
    offset += flat % tensor.shape[i] * tensor.stride[i];
    flat /= tensor.shape[i];
  }
  return offset;
}

MSDA_HOST_DEVICE inline int64_t integer_at(const msda_tensor& tensor, int64_t offset) {
  if (tensor.dtype == MSDA_INT32) return static_cast<const int32_t*>(tensor.data)[offset];
  return static_cast<const int64_t*>(tensor.data)[offset];
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
