// Whether a side's gradients are those of other conventions than the call's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/judge/groups.h"
#include "analysis/model/side.h"
#include "analysis/numbers/compare.h"

namespace msda::analysis {

// Conventions are tried on some elements of each gradient that the side has: on those in the groups, which the call's
// own do not explain, and on some that have other values than 0. They explain all gradients or none.
class TriedElements {
 public:
  // The side and the tolerance must outlive it.
  TriedElements(const Call& call, const Side& side, const std::vector<Group>& groups, const Tolerance& tolerance);

  // Returns whether float64 gives too few of a gradient's elements for chance to be the reason.
  bool are_unexplained() const;
  // Returns whether float64 gives all but a few of them for another call: even a side that follows its conventions may
  // have single wrong elements. Elements that only the call's own conventions give contradict the other's, be they few:
  // most of a gradient may be the same under both.
  bool fit(const Call& candidate) const;

 private:
  struct Tried {
    Gradient gradient;
    std::vector<int64_t> elements;
    std::vector<bool> held;  // which of them the call's own conventions give
    int64_t misses() const { return std::ranges::count(held, false); }
  };
  std::vector<bool> held(const Call& call, const Tried& tried) const;

  const Side& side_;
  const Tolerance& tolerance_;
  std::vector<Tried> tried_;
};

}  // namespace msda::analysis
