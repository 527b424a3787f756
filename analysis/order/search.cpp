#include "analysis/order/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace msda::analysis {
namespace {

// The ranges of every set of addends are kept: 2^18 sets of 64 channels take 128 MB.
constexpr size_t kMostExhaustive = 18;

bool is_finite(const OrderProblem& problem) {
  const auto finite = [](double value) { return std::isfinite(value); };
  return std::ranges::all_of(problem.addends, finite) && std::ranges::all_of(problem.start, finite) &&
         std::ranges::all_of(problem.recorded, finite);
}

// Numbers of the addends that are not zero in every channel. If a sum begins at -0, adding 0 changes it.
std::vector<uint32_t> effective_addends(const OrderProblem& problem) {
  const bool negative_zero =
      std::ranges::any_of(problem.start, [](double start) { return start == 0 && std::signbit(start); });
  std::vector<uint32_t> effective;
  for (size_t i = 0; i < problem.size(); ++i) {
    const bool is_zero = std::ranges::all_of(problem.addend(i), [](double value) { return value == 0; });
    if (!is_zero || negative_zero) effective.push_back(static_cast<uint32_t>(i));
  }
  return effective;
}

OrderResult search_by_type(const OrderProblem& problem, const SearchLimits& limits) {
  if (!any_order_may_fit(problem)) return {OrderFit::kImpossible, {}, {}, 0, false};
  OrderResult found;
  if (problem.size() <= std::clamp<size_t>(limits.exhaustive, 1, kMostExhaustive)) {
    found = search_exhaustively(problem, limits);
    if (found.fit != OrderFit::kNotFound || found.out_of_time) return found;
  }
  return anneal_order(problem, limits);
}

// Where it is not known whether the sums flush subnormals, either may be; that neither has an order proves nothing,
// since sums within a warp keep what the atomic additions after them flush.
OrderResult search_effective(const OrderProblem& problem, const SearchLimits& limits) {
  OrderResult found = search_by_type(problem, limits);
  if (!may_flush(problem)) return found;
  if (found.fit != OrderFit::kFound && !problem.type.flushes) {
    OrderProblem flushing = problem;
    flushing.type.flushes = true;
    found = search_by_type(flushing, limits);
    found.flushes = found.fit == OrderFit::kFound;
  }
  if (found.fit == OrderFit::kImpossible) found.fit = OrderFit::kNotFound;
  found.unique.reset();
  return found;
}

}  // namespace

OrderResult search_order(const OrderProblem& problem, const SearchLimits& limits) {
  if (!is_finite(problem)) return {};
  const std::vector<uint32_t> effective = effective_addends(problem);
  if (effective.size() == problem.size()) return search_effective(problem, limits);
  OrderProblem rest = problem;
  rest.addends.clear();
  for (const uint32_t i : effective) {
    const auto addend = problem.addend(i);
    rest.addends.insert(rest.addends.end(), addend.begin(), addend.end());
  }
  OrderResult result = search_effective(rest, limits);
  if (result.fit != OrderFit::kFound) return result;
  for (uint32_t& i : result.order) i = effective[i];
  for (uint32_t i = 0; i < problem.size(); ++i) {
    if (!std::ranges::binary_search(effective, i)) result.order.push_back(i);
  }
  return result;
}

}  // namespace msda::analysis
