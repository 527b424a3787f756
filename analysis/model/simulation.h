// What an operator offers to simulations of its calls (analysis/stress/): calls of other sizes, divided into slices
// that can be drawn and compared one by one, and a screen that finds the few elements on which two arithmetics may
// differ.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/gradient.h"
#include "analysis/numbers/compare.h"
#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

class Call;
struct Conventions;

// In place of the recorded sizes.
struct CallSizes {
  std::optional<int64_t> batch, heads, queries;
};

// A call divided into parts whose elements depend on nothing of the other parts.
struct Slices {
  int64_t count = 0;
  std::shared_ptr<const Call> outline;  // of one of them, without data
};

// Elements of a call's gradients, by Gradient, that may be out of tolerance: all of a gradient, or those listed.
struct Suspects {
  std::array<bool, kMostGradients> all{};
  std::array<std::vector<int64_t>, kMostGradients> elements;

  void clear() {
    all = {};
    for (auto& list : elements) list.clear();
  }
};

// Finds the elements of a slice that two arithmetics may give values of which one is out of tolerance of the other;
// that no other element can be is proven, not estimated, from the rounding errors of the operator's kernels. Not
// thread-safe.
class Screen {
 public:
  virtual ~Screen() = default;
  virtual void find(const Call& slice, const Tolerance& tolerance, Suspects& suspects) = 0;
};

}  // namespace msda::analysis
