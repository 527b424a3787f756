#include "analysis/judge/order_certificates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/order/find_orders.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// The most pixels of a run that get a certificate, and the most additions to one that is tried: about a second of work.
constexpr size_t kMostPixels = 64, kMostCertified = 100;

SearchLimits limits_of_certificates() {
  SearchLimits limits;
  limits.exhaustive = 12;
  limits.steps = 200'000;
  limits.moves = 10'000;
  return limits;
}

// By target: the findings among its elements.
using Wanted = std::map<int64_t, std::vector<Finding*>>;

void certify(const TargetOrder& order, const AdditionArithmetic& arithmetic, const std::vector<Finding*>& findings) {
  for (Finding* finding : findings) {
    Evidence& e = finding->evidence["order"];
    e["fit"] = name_of(order.result.fit);
    if (order.result.fit != OrderFit::kFound) continue;
    e["unique"] = order.result.unique ? Evidence(*order.result.unique) : Evidence();
    e["addends"] = order.result.order;
    e["product"] = arithmetic.product.name;
    finding->why += fmt::format("; an order of these {} addends gives every recorded bit of the pixel's channels{}",
                                order.addends, order.result.unique.value_or(false) ? ", and only this one" : "");
  }
}

void certify(const Material& material, Gradient gradient, const Wanted& wanted, int threads) {
  const OrderMaterial of_orders{*material.call, gradient, material.recorded.of(gradient),
                                material.before[gradient.place()], material.kernel};
  if (!of_orders.additions) return;
  const AdditionArithmetic arithmetic = find_addition_arithmetic(of_orders, limits_of_certificates());
  if (!arithmetic.found) return;
  std::map<int64_t, std::vector<int64_t>> by_family;
  for (const auto& [target, findings] : wanted) {
    by_family[material.call->family_of(gradient, findings.front()->flat)].push_back(target);
  }
  for (const auto& [family, targets] : by_family) {
    const auto addends = of_orders.additions->shared_addends(family, arithmetic.factors);
    std::vector<std::span<const SharedAddend>> chosen;
    for (const auto& of_target : by_target(addends)) {
      if (of_target.size() <= kMostCertified && std::ranges::binary_search(targets, of_target.front().target)) {
        chosen.push_back(of_target);
      }
    }
    std::vector<TargetOrder> orders(chosen.size());
    const auto count = static_cast<int64_t>(chosen.size());
    kernels::parallel_for(count, kernels::thread_count(threads, count), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      orders[at] = order_of(of_orders, arithmetic, chosen[at], limits_of_certificates(), /*faults=*/false);
    });
    for (const TargetOrder& order : orders) certify(order, arithmetic, wanted.at(order.target));
  }
}

}  // namespace

void add_certificates(const Material& material, int threads, std::vector<Finding>& findings) {
  for (const Gradient gradient : material.call->gradients()) {
    if (!gradient.scattered()) continue;
    Wanted wanted;
    for (Finding& finding : findings) {
      if (finding.gradient != gradient || finding.cause != Cause::kAccumulationOrder) continue;
      const int64_t target = material.call->weights_of(gradient, finding.flat);
      if (wanted.size() < kMostPixels || wanted.contains(target)) wanted[target].push_back(&finding);
    }
    if (!wanted.empty()) certify(material, gradient, wanted, threads);
  }
}

}  // namespace msda::analysis
