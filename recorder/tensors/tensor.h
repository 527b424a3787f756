// Strided tensors: where their elements lie, and how to make them row-major and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recorder/tensors/description.h"

namespace msda::tensors {

// The memory range of a tensor, in bytes.
struct Extent {
  int64_t elements = 1;
  int64_t dense = 0;  // row-major, without gaps
  int64_t begin = 0,
          end = 0;         // where the elements lie, relative to the first one: [begin, end); empty without elements
  bool contiguous = true;  // row-major, without gaps

  // Returns whether a recording of `bytes` bytes is row-major: the recorder leaves the gaps out if it can.
  bool is_recorded_row_major(uint64_t bytes) const {
    return bytes == static_cast<uint64_t>(dense) && (contiguous || dense < end);
  }
  bool can_be_recorded_in(uint64_t bytes) const {
    return bytes == static_cast<uint64_t>(end) || is_recorded_row_major(bytes);
  }
};

// Returns nothing if shape or strides are invalid: a negative size, strides for another rank, or a product of sizes
// beyond int64_t, even with sizes of 0 counted as 1, so that they can be multiplied in any order.
std::optional<Extent> extent_of(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                int64_t element_bytes) noexcept;

std::optional<Extent> extent_of(const Description& tensor) noexcept;

// A plan to make a strided tensor row-major: contiguous pieces, visited along the dimensions, outermost first.
struct RowMajorCopy {
  std::vector<int64_t> shape, strides;  // of the pieces; strides in bytes
  int64_t piece = 0;                    // bytes
};

// Needs the shape and strides to have an extent, with elements.
RowMajorCopy row_major_copy(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t element_bytes);

// Copies the elements to `to` in row-major order; `first` points to the first of them. The shape and strides must have
// an extent.
void copy_row_major(const std::byte* first, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t element_bytes, std::byte* to);

// Copies elements in row-major order to where they lie in a strided tensor, whose first element is at `first`.
void copy_from_row_major(const std::byte* from, std::span<const int64_t> shape, std::span<const int64_t> strides,
                         int64_t element_bytes, std::byte* first);

}  // namespace msda::tensors
