// Samples grouped by the place to which they contribute, in their order: by a stable sort. For calls of any size.
#pragma once

#include <cstdint>

#include "kernels/cuda/workspace.h"

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

class Grouping {
 public:
  Grouping(int64_t samples, int64_t cells);
  void want(Workspace& workspace);
  // To be filled in.
  CellNumbers numbers(int64_t of_head) const { return {of_head, cell_[0], sample_[0]}; }
  CellSamples grouped(int64_t of_head, Work& work);

 private:
  int64_t samples_, cells_;
  uint64_t* cell_[2] = {};
  uint32_t* sample_[2] = {};
  int64_t* begin_ = nullptr;
  char* temporary_ = nullptr;
  size_t temporary_bytes_ = 0;
};

}  // namespace msda::kernels::cuda
