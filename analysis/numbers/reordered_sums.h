// The addends of one element of a gradient, summed in other orders.
#pragma once

#include <functional>
#include <vector>

#include "analysis/numbers/addends.h"
#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// The range of sums over several orders of the addends; each addition is rounded to `arithmetic`.
struct Spread {
  double lowest, highest;
  int orders;
};

enum class Orders {
  kLikely,  // as given, backwards, and seeded shuffles
  kAll      // these, and orders that no kernel has but that differ most: by size up and down, positive addends first
};
// Stops as soon as `enough` returns true for the orders so far; null: never.
using Enough = std::function<bool(const Spread&)>;
Spread try_orders(const Addends& addends, msda_dtype arithmetic, Orders orders, int shuffles,
                  const Enough& enough = nullptr);

// A result may be farther from the exact sum of the addends than the orders tried by this many times what these are
// apart, because a GPU's order may be less favourable than these. Where all of them end off alike, as a sum that has
// stopped does, no order ends farther off.
inline constexpr double kBeyondTried = 4;
double reach_of(const Spread& spread, double exact_sum);

}  // namespace msda::analysis
