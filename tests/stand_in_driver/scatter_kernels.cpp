#include "tests/stand_in_driver/scatter_kernels.h"

#include <cstdint>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/other_kernels.h"

namespace msda::stand_in {
namespace {

// sum [rows, channels], of contiguous tensors, along dimension 0.
CUresult index_add(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto sum = arguments.next<TensorInfo<float, int>>(), source = arguments.next<TensorInfo<float, int>>();
  const auto index = arguments.next<TensorInfo<int64_t, int>>();
  for (int i = 0; i < 2; ++i) arguments.next<int>();  // both dimensions are 0
  const int64_t total = arguments.next<uint32_t>(), channels = arguments.next<uint32_t>();
  const auto rows = arguments.next<int64_t>();
  if (!reachable(sum.data, rows * channels) || !reachable(source.data, total) ||
      !reachable(index.data, index.sizes[0])) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (int64_t i = 0; i < total; ++i) sum.data[index.data[i / channels] * channels + i % channels] += source.data[i];
  return CUDA_SUCCESS;
}

CUresult index_put(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto* const sorted = arguments.next<const int64_t*>();
  const auto* const from = arguments.next<const int64_t*>();
  const auto* const source = arguments.next<const float*>();
  auto* const sum = arguments.next<float*>();
  const auto count = arguments.next<int64_t>(), channels = arguments.next<int64_t>();
  if (!reachable(sorted, count) || !reachable(from, count) || !reachable(source, count * channels) ||
      !reachable(sum, (sorted[count - 1] + 1) * channels)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (int64_t i = 0; i < count * channels; ++i) {
    sum[sorted[i / channels] * channels + i % channels] += source[from[i / channels] * channels + i % channels];
  }
  return CUDA_SUCCESS;
}

CUresult embedding(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto* const index = arguments.next<const int64_t*>();
  const auto* const source = arguments.next<const float*>();
  auto* const sum = arguments.next<float*>();
  const int64_t count = arguments.next<int>();
  const auto channels = arguments.next<int64_t>();
  const int64_t padding = arguments.next<int>();
  if (!reachable(index, count) || !reachable(source, count * channels)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count * channels; ++i) {
    const int64_t row = index[i / channels];
    if (!reachable(sum, (row + 1) * channels)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (row != padding) sum[row * channels + i % channels] += source[i];
  }
  return CUDA_SUCCESS;
}

}  // namespace

const std::vector<KernelCode>& scatter_kernels() {
  // Offsets and sizes as PyTorch's images have them.
  static const std::vector<KernelCode> kernels = {
      {kIndexAdd,
       {{0, 216},
        {216, 216},
        {432, 216},
        {648, 4},
        {652, 4},
        {656, 4},
        {660, 4},
        {664, 8},
        {672, 8},
        {680, 8},
        {688, 4}},
       index_add},
      {kIndexPut, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 1}}, index_put},
      {kEmbedding, {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {32, 8}, {40, 4}}, embedding}};
  return kernels;
}

}  // namespace msda::stand_in
