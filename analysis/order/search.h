// Finds an order of a group's addends that gives the recorded bits, or proves that there is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "analysis/order/problem.h"
#include "kernels/names.h"

namespace msda::analysis {

struct SearchLimits {
  // Up to this many addends every order is considered, unless that takes more than `steps`; of one addend always.
  size_t exhaustive = 15;
  // Partial orders to consider in the exhaustive search.
  int64_t steps = 4'000'000;
  // Orders to try in the annealing that follows it or, beyond that many addends, replaces it.
  int64_t moves = 40'000;
  uint64_t seed = 0;
  // When to give up. The result then depends on the machine; it does not otherwise.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

enum class OrderFit {
  kFound,       // an order gives every recorded bit
  kImpossible,  // it is proved that none does
  kNotFound     // none was found, which proves nothing
};

inline const char* name_of(OrderFit fit) {
  constexpr const char* kNames[] = {"explained", "impossible", "not_found"};
  return kernels::look_up(kNames, fit, "?");
}

struct OrderResult {
  OrderFit fit = OrderFit::kNotFound;
  // If found. Addends that are zero in every channel change nothing, and come last.
  Order order;
  // Whether no other order gives the bits, except for exchanging the first two addends of a sum that begins at zero,
  // equal addends, and addends of zero. Nothing if the search did not get to an end.
  std::optional<bool> unique;
  // The most channels that one of the tried orders fits, if none fits all; of the annealing.
  size_t channels = 0;
  bool out_of_time = false;
  bool flushes = false;  // whether the order gives the bits in sums that flush subnormals (SumType)
};

OrderResult search_order(const OrderProblem& problem, const SearchLimits& limits);

// The two searches behind it, for problems without addends of zero. The first gives up after `steps`; its result is
// then kNotFound, or kFound without `unique`.
OrderResult search_exhaustively(const OrderProblem& problem, const SearchLimits& limits);
OrderResult anneal_order(const OrderProblem& problem, const SearchLimits& limits);

}  // namespace msda::analysis
