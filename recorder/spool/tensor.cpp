#include "recorder/spool/tensor.h"

#include <algorithm>
#include <cstring>

namespace msda::spool {
namespace {

// Adds how far the last index of a dimension is from its first to the end that the stride points to.
bool stretch(Extent& extent, int64_t size, int64_t stride, int64_t element_bytes) {
  int64_t step = 0;
  int64_t& side = stride < 0 ? extent.begin : extent.end;
  return !__builtin_mul_overflow(size - 1, stride, &step) && !__builtin_mul_overflow(step, element_bytes, &step) &&
         !__builtin_add_overflow(side, step, &side);
}

}  // namespace

std::optional<Extent> extent_of(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                int64_t element_bytes) noexcept {
  if (!strides.empty() && strides.size() != shape.size()) return std::nullopt;
  Extent extent;
  int64_t row = element_bytes;  // bytes of one index of the dimension, where the tensor is row-major
  for (size_t i = shape.size(); i-- > 0;) {
    const int64_t size = shape[i];
    if (size < 0) return std::nullopt;
    const bool is_row_major = strides.empty() || size <= 1 || strides[i] == row / element_bytes;
    extent.contiguous = extent.contiguous && is_row_major;
    if (!strides.empty() && size > 0 && !stretch(extent, size, strides[i], element_bytes)) return std::nullopt;
    if (__builtin_mul_overflow(row, std::max<int64_t>(size, 1), &row)) return std::nullopt;
    extent.elements *= size;  // at most the row's, which fit
  }
  extent.dense = extent.elements * element_bytes;
  if (extent.elements == 0) {
    extent.begin = extent.end = 0;
  } else if (strides.empty()) {
    extent.end = extent.dense;
  } else if (__builtin_add_overflow(extent.end, element_bytes, &extent.end)) {
    return std::nullopt;
  }
  return extent;
}

void copy_row_major(const std::byte* first, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t element_bytes, std::byte* to) {
  const auto size = static_cast<size_t>(element_bytes);
  const auto extent = extent_of(shape, strides, element_bytes);
  if (!extent) return;
  if (extent->contiguous) {
    if (extent->dense > 0) std::memcpy(to, first, static_cast<size_t>(extent->dense));
    return;
  }
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t element = 0; element < extent->elements; ++element) {
    int64_t at = 0;
    for (size_t i = 0; i < shape.size(); ++i) at += index[i] * strides[i];
    std::memcpy(to, first + at * element_bytes, size);
    to += size;
    for (size_t i = shape.size(); i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
  }
}

}  // namespace msda::spool
