#include "recorder/tensors/tensor.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/walk.h"

namespace msda::tensors {
namespace {

// Extends the extent by the distance between a dimension's first and last index, in the stride's direction.
bool stretch(Extent& extent, int64_t size, int64_t stride, int64_t element_bytes) {
  int64_t step = 0;
  int64_t& side = stride < 0 ? extent.begin : extent.end;
  return !__builtin_mul_overflow(size - 1, stride, &step) && !__builtin_mul_overflow(step, element_bytes, &step) &&
         !__builtin_add_overflow(side, step, &side);
}

// The two innermost dimensions of contiguous pieces.
struct Plane {
  struct Dimension {
    int64_t size = 1, stride = 0;  // bytes
  } rows, columns;
  size_t piece;  // bytes

  void copy(const std::byte* from, std::byte* to) const {
    switch (piece) {  // with a constant size, a copy of a few bytes is one instruction
      case 2:
        return copy_pieces(from, to, std::integral_constant<size_t, 2>());
      case 4:
        return copy_pieces(from, to, std::integral_constant<size_t, 4>());
      case 8:
        return copy_pieces(from, to, std::integral_constant<size_t, 8>());
      case 16:
        return copy_pieces(from, to, std::integral_constant<size_t, 16>());
      case 32:
        return copy_pieces(from, to, std::integral_constant<size_t, 32>());
      default:
        return copy_pieces(from, to, piece);
    }
  }

 private:
  // Copies in tiles, so that a transposed plane uses each cache line while it is cached.
  template <class Size>
  void copy_pieces(const std::byte* from, std::byte* to, Size size) const {
    constexpr int64_t kTile = 32;
    for (int64_t row_tile = 0; row_tile < rows.size; row_tile += kTile) {
      const int64_t rows_end = std::min(row_tile + kTile, rows.size);
      for (int64_t column_tile = 0; column_tile < columns.size; column_tile += kTile) {
        const int64_t columns_end = std::min(column_tile + kTile, columns.size);
        for (int64_t row = row_tile; row < rows_end; ++row) {
          const std::byte* source = from + row * rows.stride;
          std::byte* target = to + row * columns.size * static_cast<int64_t>(size);
          for (int64_t column = column_tile; column < columns_end; ++column) {
            std::memcpy(target + column * static_cast<int64_t>(size), source + column * columns.stride, size);
          }
        }
      }
    }
  }
};

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

std::optional<Extent> extent_of(const Description& tensor) noexcept {
  return extent_of(tensor.shape, tensor.strides, kernels::bytes_of(tensor.type));
}

// Omits dimensions of size 1, and merges neighbouring dimensions whose strides allow it.
RowMajorCopy row_major_copy(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t element_bytes) {
  RowMajorCopy copy{{}, {}, element_bytes};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const int64_t size = shape[i], stride = strides[i] * element_bytes;
    if (!copy.shape.empty() && copy.strides.back() == stride * size) {
      copy.shape.back() *= size;
      copy.strides.back() = stride;
    } else {
      copy.shape.push_back(size);
      copy.strides.push_back(stride);
    }
  }
  if (!copy.shape.empty() && copy.strides.back() == element_bytes) {
    copy.piece *= copy.shape.back();
    copy.shape.pop_back();
    copy.strides.pop_back();
  }
  return copy;
}

void copy_row_major(const std::byte* first, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t element_bytes, std::byte* to) {
  const auto extent = extent_of(shape, strides, element_bytes);
  if (!extent || extent->elements == 0) return;
  if (extent->contiguous) {
    std::memcpy(to, first, static_cast<size_t>(extent->dense));
    return;
  }
  auto [outer, outer_strides, piece] = row_major_copy(shape, strides, element_bytes);
  Plane plane{{}, {}, static_cast<size_t>(piece)};
  for (Plane::Dimension* side : {&plane.columns, &plane.rows}) {
    if (outer.empty()) break;
    *side = {outer.back(), outer_strides.back()};
    outer.pop_back();
    outer_strides.pop_back();
  }
  const int64_t plane_bytes = piece * plane.rows.size * plane.columns.size;
  kernels::for_each_row(outer, outer_strides, [&](int64_t offset, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i, to += plane_bytes) plane.copy(first + offset + i * step, to);
  });
}

void copy_from_row_major(const std::byte* from, std::span<const int64_t> shape, std::span<const int64_t> strides,
                         int64_t element_bytes, std::byte* first) {
  const auto size = static_cast<size_t>(element_bytes);
  kernels::for_each_row(shape, strides, [&](int64_t offset, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i, from += size) {
      std::memcpy(first + (offset + i * step) * element_bytes, from, size);
    }
  });
}

}  // namespace msda::tensors
