#include "analysis/order/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "analysis/numbers/tensor.h"
#include "kernels/atomic_sum.h"

namespace msda::analysis {

OrderProblem OrderProblem::without(size_t i) const {
  OrderProblem rest = *this;
  const auto first = rest.addends.begin() + static_cast<std::ptrdiff_t>(i * channels);
  rest.addends.erase(first, first + static_cast<std::ptrdiff_t>(channels));
  return rest;
}

OrderProblem OrderProblem::twice(size_t i) const {
  OrderProblem more = *this;
  const auto again = addend(i);
  more.addends.insert(more.addends.end(), again.begin(), again.end());
  return more;
}

OrderProblem OrderProblem::part(std::span<const size_t> of_channels) const {
  OrderProblem some;
  some.type = type;
  some.channels = of_channels.size();
  for (const size_t c : of_channels) {
    some.start.push_back(start[c]);
    some.recorded.push_back(recorded[c]);
  }
  some.addends.reserve(size() * some.channels);
  for (size_t i = 0; i < size(); ++i) {
    for (const size_t c : of_channels) some.addends.push_back(addend(i)[c]);
  }
  return some;
}

std::vector<double> fold(const OrderProblem& problem, const Order& order) {
  std::vector<double> sums = problem.start;
  const auto kept = [&](double x) -> double {
    return problem.type.flushes ? kernels::flushed(static_cast<float>(x)) : x;
  };
  for (const uint32_t i : order) {
    const auto addend = problem.addend(i);
    for (size_t c = 0; c < problem.channels; ++c) {
      sums[c] = kept(rounded_to(kept(sums[c]) + kept(addend[c]), problem.type.sum));
    }
  }
  for (double& sum : sums) sum = rounded_to(sum, problem.type.stored);
  return sums;
}

size_t channels_that_fit(const OrderProblem& problem, const Order& order) {
  const std::vector<double> sums = fold(problem, order);
  size_t fitting = 0;
  for (size_t c = 0; c < problem.channels; ++c) {
    const bool same_sign = std::signbit(sums[c]) == std::signbit(problem.recorded[c]);
    fitting += sums[c] == problem.recorded[c] && same_sign;
  }
  return fitting;
}

std::vector<OrderTarget> targets_of(const OrderProblem& problem) {
  std::vector<OrderTarget> targets;
  for (const double value : problem.recorded) {
    OrderTarget target{value, value};
    if (problem.type.sum != problem.type.stored) {
      // Returns the neighbours of float32 that round to the value: by halving, since rounding is monotonic.
      const auto farthest = [&](double direction) {
        const double unit = Precision::of(problem.type.stored).unit, tiny = Precision::of(problem.type.stored).tiny;
        auto in = static_cast<float>(value);
        auto out = static_cast<float>(value + direction * (4 * unit * std::abs(value) + 4 * tiny));
        for (;;) {
          const auto middle = static_cast<float>((static_cast<double>(in) + out) / 2);
          if (middle == in || middle == out) return static_cast<double>(in);
          (rounded_to(middle, problem.type.stored) == value ? in : out) = middle;
        }
      };
      target = {farthest(-1), farthest(1)};
    }
    targets.push_back(target);
  }
  return targets;
}

bool may_flush(const OrderProblem& problem) {
  if (problem.type.sum != MSDA_FLOAT32) return false;
  // Sums of larger numbers are multiples of their last place, so normal or zero.
  const Precision precision = Precision::of(MSDA_FLOAT32);
  const double least = precision.smallest_normal() / precision.unit;
  const auto may = [&](double x) { return x != 0 && std::abs(x) < least; };
  return std::ranges::any_of(problem.addends, may) || std::ranges::any_of(problem.start, may) ||
         std::ranges::any_of(problem.recorded, may);
}

bool any_order_may_fit(const OrderProblem& problem) {
  const Precision precision = Precision::of(problem.type.sum), stored = Precision::of(problem.type.stored);
  const auto additions = static_cast<double>(problem.size());
  const double gamma =
      additions * precision.unit < 0.5 ? additions * precision.unit / (1 - additions * precision.unit) : INFINITY;
  for (size_t c = 0; c < problem.channels; ++c) {
    long double sum = problem.start[c];
    double magnitude = std::abs(problem.start[c]);
    for (size_t i = 0; i < problem.size(); ++i) {
      sum += problem.addend(i)[c];
      magnitude += std::abs(problem.addend(i)[c]);
    }
    const double distance = std::abs(static_cast<double>(sum - problem.recorded[c]));
    // The last terms cover the rounding of this computation and underflow.
    const double storage = stored.unit * std::abs(problem.recorded[c]) + stored.tiny;
    const double bound = gamma * magnitude * (1 + 1e-9) + additions * precision.tiny +
                         (problem.type.sum == problem.type.stored ? 0 : storage) + 0x1p-60 * magnitude;
    if (distance > bound) return false;
  }
  return true;
}

}  // namespace msda::analysis
