// Simulated annealing on the number of channels that fit, for more addends than can be searched exhaustively.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/order/search.h"
#include "analysis/order/with_sum_type.h"
#include "kernels/cpu/random.h"

namespace msda::analysis {
namespace {

class Random : public kernels::cpu::SplitMix64 {
 public:
  using SplitMix64::SplitMix64;
  size_t below(size_t bound) { return static_cast<size_t>((next() >> 32) * bound >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

template <class Type>
class Annealing {
  using Real = typename Type::Real;
  static constexpr size_t kBlock = 8;  // channels that the compiler adds together

 public:
  Annealing(const OrderProblem& problem, const SearchLimits& limits)
      : problem_(problem),
        limits_(limits),
        count_(problem.size()),
        width_((problem.channels + kBlock - 1) / kBlock * kBlock),
        random_(limits.seed) {
    addends_.assign(count_ * width_, 0);
    for (size_t i = 0; i < count_; ++i) {
      const auto addend = problem.addend(i);
      for (size_t c = 0; c < problem.channels; ++c) addends_[i * width_ + c] = static_cast<Real>(addend[c]);
    }
    // Channels that only fill a block up have sums of 0, which always fit.
    sums_.assign((count_ + 1) * width_, 0);
    lowest_.assign(width_, 0);
    highest_.assign(width_, 0);
    const std::vector<OrderTarget> targets = targets_of(problem);
    for (size_t c = 0; c < problem.channels; ++c) {
      sums_[c] = static_cast<Real>(problem.start[c]);
      lowest_[c] = static_cast<Real>(targets[c].lowest);
      highest_[c] = static_cast<Real>(targets[c].highest);
    }
    work_ = sums_;
  }

  OrderResult run() {
    OrderResult result;
    int64_t moves = 0;
    const auto a_start = std::max<int64_t>(2000, static_cast<int64_t>(count_) * 4000);
    for (int start = 0; moves < limits_.moves && !result.out_of_time; ++start) {
      begin(start);
      const int64_t end = std::min(limits_.moves, moves + a_start);
      const int64_t begun = moves;
      for (; moves < end && score_ < width_; ++moves) {
        if (moves % 1024 == 0 && std::chrono::steady_clock::now() >= limits_.until) {
          result.out_of_time = true;
          break;
        }
        const double done = static_cast<double>(moves - begun) / static_cast<double>(a_start);
        move(kHot * std::pow(kCold / kHot, done));
      }
      result.channels = std::max(result.channels, score_ - (width_ - problem_.channels));
      if (score_ == width_ && channels_that_fit(problem_, order_) == problem_.channels) {
        result.fit = OrderFit::kFound;
        result.order = order_;
        break;
      }
      ++moves;  // also for a start that fits but for the sign of a zero
    }
    return result;
  }

 private:
  static constexpr double kHot = 0.6, kCold = 0.2;  // in channels

  // The order of the samples, then orders near it, then also backwards.
  void begin(int start) {
    order_.resize(count_);
    std::iota(order_.begin(), order_.end(), 0u);
    if (start % 4 == 3) std::ranges::reverse(order_);
    for (int i = 0; start > 0 && i < static_cast<int>(count_) / 4; ++i) {
      const size_t at = random_.below(count_ - 1);
      std::swap(order_[at], order_[at + 1]);
    }
    changed_ = order_;
    score_ = evaluate(0);
    sums_.swap(work_);
  }

  // Sums of `changed_` from place `from` on, into work_; how many channels fit.
  size_t evaluate(size_t from) {
    const Real* before = sums_.data() + from * width_;
    for (size_t i = from; i < count_; ++i) {
      const Real* const added = addends_.data() + changed_[i] * width_;
      Real* const after = work_.data() + (i + 1) * width_;
      for (size_t block = 0; block < width_; block += kBlock) {
        for (size_t c = block; c < block + kBlock; ++c) after[c] = Type::add(before[c], added[c]);
      }
      before = after;
    }
    size_t fitting = 0;
    for (size_t c = 0; c < width_; ++c) fitting += before[c] >= lowest_[c] && before[c] <= highest_[c];
    return fitting;
  }

  void move(double temperature) {
    size_t first = random_.below(count_), last = first;
    const size_t kind = random_.below(3);
    if (kind == 0) {
      last = first + 1 < count_ ? first + 1 : first - 1;
    } else {
      last = random_.below(count_);
    }
    if (first == last) return;
    if (kind < 2) {
      std::swap(changed_[first], changed_[last]);
    } else {
      rotate(first, last);
    }
    const size_t from = std::min(first, last), score = evaluate(from);
    const double worse = static_cast<double>(score_) - static_cast<double>(score);
    if (worse <= 0 || random_.unit() < std::exp(-worse / temperature)) {
      score_ = score;
      order_ = changed_;
      std::copy(work_.begin() + static_cast<std::ptrdiff_t>((from + 1) * width_), work_.end(),
                sums_.begin() + static_cast<std::ptrdiff_t>((from + 1) * width_));
    } else {
      changed_ = order_;
    }
  }

  // Takes an addend out and puts it in elsewhere.
  void rotate(size_t from, size_t to) {
    const auto at = [&](size_t i) { return changed_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  const OrderProblem& problem_;
  const SearchLimits& limits_;
  size_t count_, width_;
  Random random_;
  std::vector<Real> addends_, lowest_, highest_;
  std::vector<Real> sums_, work_;  // after each addition: of order_, of changed_
  Order order_, changed_;
  size_t score_ = 0;
};

}  // namespace

OrderResult anneal_order(const OrderProblem& problem, const SearchLimits& limits) {
  if (problem.size() < 2) return {};
  return with_sum_type(problem.type, [&](auto type) { return Annealing<decltype(type)>(problem, limits).run(); });
}

}  // namespace msda::analysis
