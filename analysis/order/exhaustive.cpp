// Every order, from the last addend to the first.
//
// Before the last addition, the sum of a channel must lie in a range of a few values to become the recorded word;
// before the one ahead of that in another range; and so on (sum_types.h). On the other hand the sums of a set of
// addends, in whatever order, lie in a range that is computed in advance for every set, exactly: the extreme sum of a
// set is that of one of its subsets with one addend less, plus that addend. Where the two ranges of any channel do not
// meet, no order begins with that set and ends as chosen. Dozens of channels leave few of the n! orders to look at.
#include <algorithm>
#include <array>
#include <numeric>

#include "analysis/order/search.h"
#include "analysis/order/sum_types.h"
#include "analysis/order/with_sum_type.h"

namespace msda::analysis {
namespace {

template <class Type>
class Exhaustive {
  using Real = typename Type::Real;
  // Channels that guide the search; what they leave is tried on all of them.
  static constexpr size_t kMostChannels = 64;

 public:
  Exhaustive(const OrderProblem& problem, const SearchLimits& limits)
      : problem_(problem), limits_(limits), count_(problem.size()), width_(std::min(problem.channels, kMostChannels)) {
    for (size_t i = 0; i < count_; ++i) {
      for (const double value : problem.addend(i).first(width_)) addends_.push_back(Type::round(value));
    }
    find_ranges();
    begins_at_zero_ = std::ranges::all_of(problem.start, [](double start) { return start == 0; });
    find_equal_addends();
    channels_.resize(width_);
    std::iota(channels_.begin(), channels_.end(), size_t{0});
  }

  OrderResult run() {
    const std::vector<OrderTarget> targets = targets_of(problem_);
    ends_.resize((count_ + 1) * width_ * 2);
    for (size_t c = 0; c < width_; ++c) {
      lowest(count_)[c] = static_cast<Real>(targets[c].lowest);
      highest(count_)[c] = static_cast<Real>(targets[c].highest);
    }
    last_first_.resize(count_);
    const uint32_t all = (1u << count_) - 1;
    bool meets = true;
    for (size_t c = 0; c < width_; ++c) meets = meets && meet(all, count_, c);
    if (meets) descend(all, count_);
    OrderResult result;
    result.out_of_time = out_of_time_;
    if (found_ > 0) {
      result.fit = OrderFit::kFound;
      result.order = first_;
      if (found_ > 1) {
        result.unique = false;
      } else if (!stopped_) {
        result.unique = true;
      }
    } else if (!stopped_) {
      result.fit = OrderFit::kImpossible;
    }
    return result;
  }

 private:
  // Returns the range that the sums must lie in before all but `left` additions.
  Real* lowest(size_t left) { return ends_.data() + left * width_ * 2; }
  Real* highest(size_t left) { return lowest(left) + width_; }
  // Returns the range of the sums of a set.
  Real* least(uint32_t set) { return ranges_.data() + size_t{set} * width_ * 2; }
  Real* most(uint32_t set) { return least(set) + width_; }

  bool meet(uint32_t set, size_t left, size_t c) {
    return lowest(left)[c] <= most(set)[c] && highest(left)[c] >= least(set)[c];
  }

  void find_ranges() {
    const size_t sets = size_t{1} << count_;
    ranges_.resize(sets * width_ * 2);
    for (size_t c = 0; c < width_; ++c) least(0)[c] = most(0)[c] = Type::round(problem_.start[c]);
    for (uint32_t set = 1; set < sets; ++set) {
      Real* const low = least(set);
      Real* const high = most(set);
      bool first = true;
      for (uint32_t rest = set; rest != 0; rest &= rest - 1, first = false) {
        const auto last = static_cast<size_t>(std::countr_zero(rest));
        const uint32_t before = set & ~(1u << last);
        const Real* const added = addends_.data() + last * width_;
        const Real* const from_low = least(before);
        const Real* const from_high = most(before);
        for (size_t c = 0; c < width_; ++c) {
          const Real lower = Type::add(from_low[c], added[c]), upper = Type::add(from_high[c], added[c]);
          low[c] = first || lower < low[c] ? lower : low[c];
          high[c] = first || upper > high[c] ? upper : high[c];
        }
      }
    }
  }

  // Equal addends are taken in the order of their numbers, so that their swaps are not counted as orders.
  void find_equal_addends() {
    later_equals_.assign(count_, 0);
    for (size_t i = 0; i < count_; ++i) {
      for (size_t j = i + 1; j < count_; ++j) {
        const auto first = problem_.addend(i), second = problem_.addend(j);
        if (std::ranges::equal(first, second)) later_equals_[i] |= 1u << j;
      }
    }
  }

  // Returns whether the sums before addend `last` can be those of `before`; fills in their range.
  bool step_back(uint32_t before, size_t left, size_t last) {
    const Real* const added = addends_.data() + last * width_;
    Real* const low = lowest(left - 1);
    Real* const high = highest(left - 1);
    for (size_t at = 0; at < width_; ++at) {
      const size_t c = channels_[at];
      low[c] = lowest_before<Type>(lowest(left)[c], added[c]);
      high[c] = highest_before<Type>(highest(left)[c], added[c]);
      if (low[c] <= high[c] && meet(before, left - 1, c)) continue;
      // A channel that decides once will decide again: it comes earlier.
      if (at > 0) std::swap(channels_[at], channels_[at / 2]);
      return false;
    }
    return true;
  }

  // Extends the order to the front, where `set` is left.
  void descend(uint32_t set, size_t left) {
    if (left == 0) return take();
    if (++steps_ >= limits_.steps) stopped_ = true;
    if (steps_ % 4096 == 0 && std::chrono::steady_clock::now() >= limits_.until) stopped_ = out_of_time_ = true;
    for (size_t last = count_; last-- > 0;) {
      if ((set >> last & 1u) == 0 || (later_equals_[last] & set) != 0) continue;
      const uint32_t before = set & ~(1u << last);
      // The first two addends of a sum that begins at zero commute.
      if (begins_at_zero_ && left == 2 && before > set - before) continue;
      if (stopped_ || found_ > 1) return;
      if (!step_back(before, left, last)) continue;
      last_first_[count_ - left] = static_cast<uint32_t>(last);
      descend(before, left - 1);
    }
  }

  void take() {
    const Order order(last_first_.rbegin(), last_first_.rend());
    if (channels_that_fit(problem_, order) != problem_.channels) return;  // other channels, zeros of the other sign
    if (found_++ == 0) first_ = order;
  }

  const OrderProblem& problem_;
  const SearchLimits& limits_;
  size_t count_, width_;
  std::vector<Real> addends_, ranges_, ends_;
  std::vector<uint32_t> later_equals_;
  std::vector<size_t> channels_;  // those that decide soonest come first
  bool begins_at_zero_ = false, stopped_ = false, out_of_time_ = false;
  int64_t steps_ = 0;
  int found_ = 0;
  Order first_, last_first_;
};

}  // namespace

OrderResult search_exhaustively(const OrderProblem& problem, const SearchLimits& limits) {
  return with_sum_type(problem.type, [&](auto type) { return Exhaustive<decltype(type)>(problem, limits).run(); });
}

}  // namespace msda::analysis
