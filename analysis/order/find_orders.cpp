#include "analysis/order/find_orders.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  constexpr double kForever = 1e9;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, kForever)));
}

void count(const TargetOrder& target, OrderCounts& counts) {
  constexpr size_t kFew = 15;
  ++counts.elements;
  const bool found = target.result.fit == OrderFit::kFound;
  counts.with_1_to_15 += target.addends <= kFew;
  counts.explained_to_15 += target.addends <= kFew && found;
  counts.explained += found;
  counts.unique += target.result.unique.value_or(false);
  counts.impossible += target.result.fit == OrderFit::kImpossible;
  counts.in_parts += !target.parts.empty();
  counts.in_parts_to_15 += target.addends <= kFew && !target.parts.empty();
  counts.not_found += target.result.fit == OrderFit::kNotFound;
  counts.not_finite += !target.finite;
  counts.out_of_time += target.result.out_of_time;
  const auto any = [&](bool doubled) {
    return std::ranges::any_of(target.faults, [&](const AddendFault& fault) { return fault.doubled == doubled; });
  };
  counts.lost += any(false);
  counts.doubled += any(true);
}

class OrderFinder {
 public:
  OrderFinder(const OrderMaterial& material, const OrderSettings& settings, const std::function<void(double)>& progress)
      : material_(material), settings_(settings), progress_(progress) {}

  std::optional<OrderReport> run() {
    if (!material_.additions) return std::nullopt;
    report_.known = material_.known;
    report_.index_name = material_.additions->launch_index_name();
    report_.arithmetic = find_addition_arithmetic(material_, settings_.limits);
    // First those that can be searched through, which no limit of time for all ends.
    for (const bool large : {false, true}) {
      if (large) until_ = after(settings_.seconds);
      const int64_t families = material_.additions->family_count();
      for (int64_t family = 0; family < families; ++family) {
        const double share = static_cast<double>(family) / static_cast<double>(families);
        progress_(large ? 0.5 + share / 2 : share / 2);
        find_in(family, large, families - family);
      }
    }
    report_.seconds_of_more = settings_.seconds - std::chrono::duration<double>(until_ - Clock::now()).count();
    std::ranges::sort(report_.targets, {}, &TargetOrder::target);
    for (const TargetOrder& target : report_.targets) count(target, report_.counts);
    find_inversions();
    return std::move(report_);
  }

 private:
  // The targets of a family that have few or many addends.
  void find_in(int64_t family, bool large, int64_t families_left) {
    const auto addends = material_.additions->shared_addends(family, report_.arithmetic.factors);
    std::vector<std::span<const SharedAddend>> targets = by_target(addends);
    std::erase_if(targets, [&](const auto& target) {
      return (target.size() > std::max<size_t>(1, settings_.limits.exhaustive)) != large;
    });
    // Begins with what takes longest, so that threads end together; then with what is likeliest to be found.
    std::ranges::stable_sort(
        targets, [&](const auto& a, const auto& b) { return large ? a.size() < b.size() : a.size() > b.size(); });
    const double left = large ? std::chrono::duration<double>(until_ - Clock::now()).count() : 0;
    const auto until = large ? after(std::max(0.0, left) / static_cast<double>(families_left)) : until_;
    std::vector<TargetOrder> found(targets.size());
    const auto all = static_cast<int64_t>(targets.size());
    kernels::parallel_for(all, kernels::thread_count(settings_.threads, all), [&](int64_t i, int) {
      SearchLimits limits = settings_.limits;
      limits.until = std::min(until, after(settings_.seconds_each));
      found[static_cast<size_t>(i)] = find(targets[static_cast<size_t>(i)], limits);
    });
    std::ranges::move(found, std::back_inserter(report_.targets));
  }

  TargetOrder find(std::span<const SharedAddend> addends, const SearchLimits& limits) const {
    if (report_.arithmetic.found) {
      return order_of(material_, report_.arithmetic, addends, limits, settings_.faults && report_.known.one_at_a_time);
    }
    TargetOrder unknown;
    unknown.target = addends.front().target;
    unknown.addends = addends.size();
    return unknown;
  }

  void find_inversions() {
    constexpr int64_t kBins = 12;
    int64_t farthest = 0;
    for (const TargetOrder& target : report_.targets) {
      for (const int64_t index : target.launch_indices) farthest = std::max(farthest, index);
    }
    const int64_t width = std::max<int64_t>(1, (farthest + kBins - 1) / kBins);
    for (int64_t first = 1; first <= farthest; first += width) {
      report_.inversions.push_back({first, std::min(first + width - 1, farthest), 0, 0});
    }
    for (const TargetOrder& target : report_.targets) {
      if (!target.result.unique.value_or(false) || target.addends < 3) continue;
      ++report_.inversions_from;
      const Order& order = target.result.order;
      for (size_t i = 0; i < order.size(); ++i) {
        for (size_t j = std::max<size_t>(i + 1, 2); j < order.size(); ++j) {  // the first two commute
          const int64_t apart = target.launch_indices[order[j]] - target.launch_indices[order[i]];
          if (apart == 0) continue;
          InversionBin& bin = report_.inversions[static_cast<size_t>((std::abs(apart) - 1) / width)];
          ++bin.pairs;
          bin.inverted += apart < 0;
        }
      }
    }
  }

  const OrderMaterial& material_;
  const OrderSettings& settings_;
  const std::function<void(double)>& progress_;
  Clock::time_point until_ = Clock::time_point::max();
  OrderReport report_;
};

}  // namespace

std::optional<OrderReport> find_orders(const OrderMaterial& material, const OrderSettings& settings,
                                       const std::function<void(double)>& progress) {
  return OrderFinder(material, settings, progress).run();
}

void replay_orders(const OrderMaterial& material, const OrderReport& report,
                   const std::function<void(int64_t flat, double value)>& put) {
  const int64_t total = material.recorded.elements();
  for (int64_t flat = 0; flat < total; ++flat) put(flat, material.start_of(flat));
  for (int64_t family = 0; family < material.additions->family_count(); ++family) {
    const auto addends = material.additions->shared_addends(family, report.arithmetic.factors);
    for (const auto& of_target : by_target(addends)) {
      const int64_t target = of_target.front().target;
      const auto found = std::ranges::lower_bound(report.targets, target, {}, &TargetOrder::target);
      OrderProblem problem = problem_of(material, report.arithmetic, of_target);
      problem.type.flushes = found->result.flushes;
      Order order = found->result.order;
      if (order.empty()) {
        for (uint32_t i = 0; i < of_target.size(); ++i) order.push_back(i);
      }
      std::vector<double> sums = fold(problem, order);
      for (const OrderPart& part : found->parts) {
        const std::vector<double> of_part = fold(problem, part.order);
        for (const size_t c : part.channels) sums[c] = of_part[c];
      }
      const std::vector<int64_t> elements = material.additions->elements_of(target);
      for (size_t c = 0; c < elements.size(); ++c) put(elements[c], sums[c]);
    }
  }
}

}  // namespace msda::analysis
