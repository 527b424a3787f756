// The structs by which PyTorch passes a tensor to a kernel by value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::adapters {

// at::cuda::detail::TensorInfo. Only the first `dims` sizes and strides are set.
template <class Index>
struct TensorInfo {
  uint64_t data;
  Index sizes[25], strides[25];
  int32_t dims;
};
static_assert(sizeof(TensorInfo<int32_t>) == 216 && sizeof(TensorInfo<int64_t>) == 416);

// PackedTensorAccessor64 of a tensor with so many dimensions.
template <size_t kDims>
struct PackedAccessor {
  uint64_t data;
  std::array<int64_t, kDims> sizes, strides;
};
static_assert(sizeof(PackedAccessor<4>) == 72 && sizeof(PackedAccessor<5>) == 88);

// OffsetCalculator of kArgs tensors with 32-bit indices: the dimensions that they have in common, the fastest first,
// and for each the tensors' strides in bytes.
template <size_t kArgs>
struct OffsetCalculator {
  struct Divider {
    uint32_t divisor, multiplier, shift;
  };
  int32_t dims;
  std::array<Divider, 25> sizes;
  std::array<std::array<uint32_t, kArgs>, 25> strides;
};
static_assert(sizeof(OffsetCalculator<3>) == 604);

}  // namespace msda::adapters
