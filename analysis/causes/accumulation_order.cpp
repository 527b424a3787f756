// accumulation_order: the two sides add the same addends in different orders. The difference is within what any order
// can give, gamma_n * sum of magnitudes, and adding the very addends in other orders shows a difference of that size.
#include <fmt/format.h>

#include <cmath>

#include "analysis/causes/causes.h"
#include "analysis/numbers/reordered_sums.h"

namespace msda::analysis {
namespace {

constexpr int kShuffles = 64;

}  // namespace

std::optional<Diagnosis> test_accumulation_order(const Suspect& s) {
  if (s.reduced()) return std::nullopt;
  const auto pair = best_pair(s);
  if (!pair || !pair->same_landing()) return std::nullopt;
  const Addends observed = s.observed.version_of(s.call).addends(s.id, s.cache);
  if (observed.values.size() < 3) return std::nullopt;  // two addends have one sum
  const double observed_sum = observed.exact_sum();
  // float64 stands for the exact sum of exact addends.
  const Addends expected = s.against_float64 ? Addends{} : s.expected.version_of(s.call).addends(s.id, s.cache);
  const double expected_sum = s.against_float64 ? s.expected_value : expected.exact_sum();

  const double difference = s.observed_value - s.expected_value;
  const double from_addends = observed_sum - expected_sum;
  const double from_order = difference - from_addends;
  if (!(std::abs(from_order) > std::abs(from_addends))) return std::nullopt;  // other addends, not another order

  const msda_dtype arithmetic = s.observed.arithmetic_of(s.id.gradient);
  const double unit = Precision::of(arithmetic).unit;
  const double additions = static_cast<double>(observed.values.size() - 1);
  const double gamma = additions * unit < 1 ? additions * unit / (1 - additions * unit) : INFINITY;
  const double any_order = gamma * observed.magnitude() * (s.against_float64 ? 1 : 2) +
                           storage_error(s.observed, s.id.gradient, s.observed_value);
  if (!(std::abs(difference) <= any_order)) return std::nullopt;

  const auto reached = [&](const Spread& tried, double sum, double value, const Side& side) {
    return reach_of(tried, sum) + storage_error(side, s.id.gradient, value);
  };
  const auto shown = [&](const Spread& tried, double sum, double value, const Side& side) {
    return std::abs(value - sum) <= reached(tried, sum, value, side);
  };
  // More orders reach farther. If no evidence is wanted, the search stops at the first orders that decide the cause.
  const auto try_them = [&](const Addends& addends, double sum, double value, const Side& side) {
    const Enough enough = [&](const Spread& tried) { return shown(tried, sum, value, side); };
    return try_orders(addends, side.arithmetic_of(s.id.gradient), Orders::kAll, kShuffles,
                      s.wants_reasons ? nullptr : enough);
  };
  const Spread spread = try_them(observed, observed_sum, s.observed_value, s.observed);
  if (!shown(spread, observed_sum, s.observed_value, s.observed)) return std::nullopt;
  double reach = reached(spread, observed_sum, s.observed_value, s.observed);
  if (!s.against_float64) {
    const Spread expected_spread = try_them(expected, expected_sum, s.expected_value, s.expected);
    if (!shown(expected_spread, expected_sum, s.expected_value, s.expected)) return std::nullopt;
    reach += reached(expected_spread, expected_sum, s.expected_value, s.expected);
  }

  Diagnosis diagnosis{Cause::kAccumulationOrder, rounding_fault(s)};
  if (!s.wants_reasons) return diagnosis;
  Evidence& e = diagnosis.evidence;
  e["addends"] = observed.values.size();
  e["sum_of_magnitudes"] = number(observed.magnitude());
  e["condition_number"] = number(pair->observed->element.condition());
  e["difference"] = number(difference);
  e["from_order"] = number(from_order);
  e["from_addends"] = number(from_addends);
  e["any_order_bound"] = number(any_order);
  e["orders_tried"] = spread.orders;
  e["lowest_sum"] = number(spread.lowest);
  e["highest_sum"] = number(spread.highest);
  e["reach_of_orders"] = number(reach);
  diagnosis.why = fmt::format(
      "{} addends of total magnitude {:.6g}: {} orders of the same addends give sums from {:.9g} to {:.9g}, and any "
      "order "
      "stays within {:.3g}; the difference is {:.3g}",
      observed.values.size(), observed.magnitude(), spread.orders, spread.lowest, spread.highest, any_order,
      std::abs(difference));
  return diagnosis;
}

}  // namespace msda::analysis
