// The fixed tree of the scatter sum (sample.h, kRun) over rows of numbers: a base-kRun counter whose digits are the
// sums of the incomplete runs. The caller adds the rows to the current run itself, each or a whole run at once.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/sample.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {

template <class Real>
class RunTree {
 public:
  // `memory`: (tree_depth(the most rows) + 1) * width numbers.
  RunTree(Real* memory, int64_t width) : memory_(memory), width_(width) {}

  void begin(int64_t rows) {
    depth_ = tree_depth(rows);
    for (int i = 0; i < depth_; ++i) filled_[i] = 0;
  }
  // Returns the run that the next row belongs to: the row starts it, or is added to it.
  Real* run() { return digit(0); }
  bool starts_run() const { return filled_[0] == 0; }
  // Called after so many rows were added to one run.
  void added(int rows = 1) {
    filled_[0] += rows;
    for (int level = 0; level + 1 < depth_ && filled_[level] == kRun; ++level) carry(level);
  }
  // Returns the sum of all rows, at least one.
  const Real* sum() {
    for (int level = 0; level + 1 < depth_; ++level) {
      if (filled_[level] > 0) carry(level);
    }
    return digit(depth_ - 1);
  }

 private:
  Real* digit(int level) { return memory_ + level * width_; }

  void carry(int level) {
    const Real* __restrict from = digit(level);
    Real* __restrict to = digit(level + 1);
    if (filled_[level + 1]++ == 0) {
      for (int64_t i = 0; i < width_; ++i) to[i] = from[i];
    } else {
      for (int64_t i = 0; i < width_; ++i) to[i] = to[i] + from[i];
    }
    filled_[level] = 0;
  }

  Real* memory_;
  int64_t width_;
  int depth_ = 1;
  int filled_[16] = {};
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
