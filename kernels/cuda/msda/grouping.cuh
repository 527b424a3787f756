// Samples grouped by the place to which they contribute, in their order: by a stable sort. For calls of any size.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/stable_sort.h"

namespace msda::kernels::cuda {

// The scatter sum's cells, or pixels, numbered through: head by head, level by level. What contributes to none has the
// number after the last.
struct CellNumbers {
  int64_t of_head;   // cells of all levels
  uint64_t* cell;    // of each sample
  uint32_t* sample;  // query * P + point
};

// Samples grouped by cell, in the order of (query, point): those of cell i are sample[begin[i]] to
// sample[begin[i + 1] - 1].
struct CellSamples {
  int64_t of_head;
  const int64_t* begin;
  const uint32_t* sample;
};

inline constexpr int kBeginThreads = 256;

// Where each cell begins among samples sorted by cell, and where the last one ends: cells + 1 numbers.
inline __global__ void __launch_bounds__(kBeginThreads)
    cell_begin_kernel(const uint64_t* sorted, int64_t samples, int64_t cells, int64_t* begin) {
  const int64_t step = int64_t{gridDim.x} * kBeginThreads;
  for (int64_t cell = int64_t{blockIdx.x} * kBeginThreads + threadIdx.x; cell <= cells; cell += step) {
    int64_t low = 0, high = samples;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (sorted[middle] < static_cast<uint64_t>(cell)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begin[cell] = low;
  }
}

class Grouping {
 public:
  Grouping(int64_t samples, int64_t cells) : samples_(samples), cells_(cells), sort_(samples, cells) {}
  void want(Workspace& workspace) {
    sort_.want(workspace);
    workspace.want(begin_, cells_ + 1);
  }
  // To be filled in.
  CellNumbers numbers(int64_t of_head) const { return {of_head, sort_.keys(), sort_.numbers()}; }
  CellSamples grouped(int64_t of_head, Work& work) {
    const auto sorted = sort_.sorted(work);
    launch("cell_begin_kernel", cell_begin_kernel, blocks_for(cells_ + 1, kBeginThreads), kBeginThreads, 0, work,
           sorted.keys, samples_, cells_, begin_);
    return {of_head, begin_, sorted.numbers};
  }

 private:
  int64_t samples_, cells_;
  StableSort<uint64_t> sort_;
  int64_t* begin_ = nullptr;
};

}  // namespace msda::kernels::cuda
