// Groups the rows of scatter_add's source by the row of the sum that they belong to: a key for each row, a stable sort
// by key (common/stable_sort.h), and where each key's rows begin and end.
#pragma once

#include "kernels/scatter_sum.h"

namespace msda::kernels::cuda {

inline constexpr int kListThreads = 256;

// The rows of the source of each row of the sum, in their order: rows[x] to rows[y - 1].
struct ScatterLists {
  const uint32_t* rows;
  uint2* ranges;  // by row of the sum
};

// Rows that are left out get a key after the last. Clears the ranges, and the two counters of ScatterQueue.
inline __global__ void __launch_bounds__(kListThreads)
    scatter_keys_kernel(const __grid_constant__ ScatterSizes s, const __grid_constant__ msda_tensor index,
                        uint32_t* keys, uint32_t* numbers, uint2* ranges, uint32_t* counters) {
  const int64_t first = int64_t{blockIdx.x} * kListThreads + threadIdx.x, step = int64_t{gridDim.x} * kListThreads;
  for (int64_t j = first; j < s.n; j += step) {
    const int64_t row = row_of(s, index, j);
    keys[j] = static_cast<uint32_t>(row < 0 ? s.rows : row);
    numbers[j] = static_cast<uint32_t>(j);
  }
  for (int64_t row = first; row < s.rows; row += step) ranges[row] = uint2{0, 0};
  if (first < 2) counters[first] = 0;
}

// A thread for each row of the source.
inline __global__ void __launch_bounds__(kListThreads)
    scatter_ranges_kernel(const uint32_t* keys, int64_t n, int64_t rows, uint2* ranges) {
  const int64_t i = int64_t{blockIdx.x} * kListThreads + threadIdx.x;
  if (i >= n) return;
  const uint32_t key = keys[i];
  if (key >= rows) return;
  if (i == 0 || keys[i - 1] != key) ranges[key].x = static_cast<uint32_t>(i);
  if (i == n - 1 || keys[i + 1] != key) ranges[key].y = static_cast<uint32_t>(i + 1);
}

}  // namespace msda::kernels::cuda
