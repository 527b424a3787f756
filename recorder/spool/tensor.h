// A strided tensor: what describes it, where its elements lie, and how to make it row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace msda::spool {

struct TensorDescription {
  std::string name, type;  // "grad_value", "float32"
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; empty: row-major
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& name& type& shape& strides;
  }
};

// The space that a tensor takes, in bytes.
struct Extent {
  int64_t elements = 1;
  int64_t dense = 0;           // row-major, without gaps
  int64_t begin = 0, end = 0;  // where the elements lie, from the first one on: [begin, end); empty without elements
  bool contiguous = true;      // they lie row-major, without gaps

  // A tensor with gaps is recorded without them where the recorder could copy it so.
  bool is_recorded_row_major(uint64_t bytes) const {
    return bytes == static_cast<uint64_t>(dense) && (contiguous || dense < end);
  }
  bool can_be_recorded_in(uint64_t bytes) const {
    return bytes == static_cast<uint64_t>(end) || is_recorded_row_major(bytes);
  }
};

// Empty where the shape or the strides make no sense: a negative size, strides for another rank, or sizes whose product
// no int64_t holds, even with sizes of 0 taken as 1, so that they can be multiplied in any order.
std::optional<Extent> extent_of(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                int64_t element_bytes) noexcept;

// How a strided tensor is made row-major: pieces without gaps, walked through by the dimensions, outermost first.
struct RowMajorCopy {
  struct Dimension {
    int64_t size = 1, stride = 0;  // bytes
  };
  std::vector<Dimension> dimensions;
  int64_t piece = 0;  // bytes
};

// The shape and the strides have an extent, with elements.
RowMajorCopy row_major_copy(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t element_bytes);

// Copies the elements to `to`, one after the other; `first` points to the first of them. The shape and the strides have
// an extent.
void copy_row_major(const std::byte* first, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t element_bytes, std::byte* to);

}  // namespace msda::spool
