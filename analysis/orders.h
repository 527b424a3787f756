// The addends of one element of a gradient, summed in other orders.
#pragma once

#include <functional>
#include <vector>

#include "analysis/side.h"

namespace msda::analysis {

// As the conventions' arithmetic makes them, and what their sum is multiplied by: for grad_value the contributions, for
// the others a product for each channel.
struct Addends {
  std::vector<double> values;
  double scale = 1;

  double exact_sum() const;
  double magnitude() const;  // sum of |addends|, scaled
};

Addends addends_of(const Call& call, const Conventions& conventions, const ElementId& id, ContributionCache& cache);

// The sums that orders of the addends give, one addition after the other, each rounded into `arithmetic`.
struct Spread {
  double lowest, highest;
  int orders;
};

enum class Orders {
  kLikely,  // as given, backwards, and seeded shuffles
  kAll      // these, and the ones that no kernel has but that go far: by size up and down, the positive first
};
// Stops as soon as `enough` says so of what the orders so far give; null: never.
using Enough = std::function<bool(const Spread&)>;
Spread try_orders(const Addends& addends, msda_dtype arithmetic, Orders orders, int shuffles,
                  const Enough& enough = nullptr);

// How far from the exact sum of the addends a result may be: as many times farther than the orders tried go as a GPU
// may have luckless orders of its own.
inline constexpr double kBeyondTried = 4;
double reach_of(const Spread& spread, double exact_sum);

}  // namespace msda::analysis
