// Shapes and strides of tensors on the host: how many elements there are, and where they lie. Both count elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/msda.h"

namespace msda::kernels {

// Returns the number of elements. The product of the sizes must fit in int64.
inline int64_t elements_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

inline std::span<const int64_t> sizes_of(const msda_tensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.rank)};
}
inline std::span<const int64_t> strides_of(const msda_tensor& tensor) {
  return {tensor.stride, static_cast<size_t>(tensor.rank)};
}

// Returns the index of element number `flat`, counted row-major.
inline std::vector<int64_t> index_of(std::span<const int64_t> shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; flat /= shape[i]) index[i] = flat % shape[i];
  return index;
}

// Calls visit(offset of the first element, offset of the second minus that, count) for each innermost row of a tensor,
// in row-major order.
template <class Visit>
void for_each_row(std::span<const int64_t> shape, std::span<const int64_t> strides, Visit&& visit) {
  if (elements_of(shape) == 0) return;
  if (shape.empty()) return visit(int64_t{0}, int64_t{1}, int64_t{1});
  std::vector<int64_t> index(shape.size() - 1);
  for (int64_t offset = 0;;) {
    visit(offset, strides.back(), shape.back());
    size_t i = index.size();
    for (; i > 0; --i) {
      offset += strides[i - 1];
      if (++index[i - 1] < shape[i - 1]) break;
      offset -= strides[i - 1] * shape[i - 1];
      index[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

}  // namespace msda::kernels
