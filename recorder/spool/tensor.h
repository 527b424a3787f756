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
};

// Empty where the shape or the strides make no sense: a negative size, strides for another rank, or sizes whose product
// no int64_t holds, even with sizes of 0 taken as 1, so that they can be multiplied in any order.
std::optional<Extent> extent_of(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                int64_t element_bytes) noexcept;

// Copies the elements to `to`, one after the other; `first` points to the first of them. The shape and the strides have
// an extent.
void copy_row_major(const std::byte* first, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t element_bytes, std::byte* to);

}  // namespace msda::spool
