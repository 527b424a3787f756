// stopped_sum: a side adds up, or counts, in a type in which its sum no longer grows as it should: what is added is
// less than half of the sum's last place, and is lost, or little more, and is rounded up. No order of the additions
// avoids that, only a wider type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/causes/causes.h"
#include "analysis/numbers/reordered_sums.h"

namespace msda::analysis {
namespace {

constexpr double kNear = 0.01;  // of the magnitude: what is off by less has not stopped
// So many additions, in units of 1 over the unit of roundoff, round most addends up or down.
constexpr double kMany = 0.5;
constexpr int kOrders = 16;  // shuffled

// What a sum of the addends as given does not take up.
struct Lost {
  int64_t addends = 0;
  double total = 0;
};

Lost lost_of(const Addends& addends, msda_dtype type) {
  Lost lost;
  double sum = 0;
  for (const double value : addends.values) {
    const double addend = rounded_to(value, type), next = rounded_to(sum + addend, type);
    if (next == sum && addend != 0) {
      ++lost.addends;
      lost.total += addend * addends.scale;
    }
    sum = next;
  }
  return lost;
}

// How a side's sum of many addends, or the count that it is divided by, has stopped.
struct StoppedSide {
  const Side* side = nullptr;
  double value = 0;
  std::string count;  // the text of the count that stopped; empty: the sum has
  Addends addends;
  Lost lost;
  Spread tried{};
};

std::optional<StoppedSide> stopped_count(const Suspect& s, const Side& side, const Explanation& explanation) {
  const Axes axes = s.call.axes(s.id);
  if (axes.empty() || std::ranges::find(explanation.matches, 0u) != explanation.matches.end()) return std::nullopt;
  for (const Evaluation& way : side.version_of(s.call).evaluations(axes[0], side.arithmetic_of(s.id.gradient))) {
    const auto landed = [&](size_t i) { return explanation.candidates[i].place[0] == way.landing; };
    if (!way.stops || std::ranges::none_of(explanation.matches, landed)) continue;
    return StoppedSide{&side, explanation.value, way.name, {}, {}, {}};
  }
  return std::nullopt;
}

std::optional<StoppedSide> stopped_sum(const Suspect& s, const Side& side, const Explanation& explanation) {
  const msda_dtype type = side.arithmetic_of(s.id.gradient);
  const Element& exact = explanation.exact().element;
  const double off = exact.value - explanation.value;
  const double roundings = static_cast<double>(exact.terms) * Precision::of(type).unit;
  const bool many = roundings > kNear;
  if (!many || !(std::abs(off) > kNear * exact.cancelled)) return std::nullopt;
  StoppedSide found{&side, explanation.value, "", side.version_of(s.call).addends(s.id, s.cache), {}, {}};
  const double sum = found.addends.exact_sum(), magnitude = found.addends.magnitude();
  found.lost = lost_of(found.addends, type);
  found.tried = try_orders(found.addends, type, Orders::kAll, kOrders);
  const auto& [lowest, highest, orders] = found.tried;
  // Most of what is missing must be what is lost; or all orders of very many lead farther off than they are apart.
  const bool is_lost = found.lost.total * off > 0 && std::abs(found.lost.total) > std::abs(off) / 2;
  const bool drifts = roundings > kMany && std::max(lowest - sum, sum - highest) > highest - lowest;
  if (!is_lost && !drifts) return std::nullopt;
  if (!(std::max(lowest - sum, sum - highest) > kNear * magnitude)) return std::nullopt;
  const double slack = kBeyondTried * (highest - lowest) + storage_error(side, s.id.gradient, explanation.value) +
                       2 * Precision::of(type).unit * std::max(std::abs(lowest), std::abs(highest));
  if (!(explanation.value >= lowest - slack && explanation.value <= highest + slack)) return std::nullopt;
  return found;
}

std::optional<StoppedSide> stopped(const Suspect& s, const Side& side, const Explanation& explanation) {
  if (explanation.reduced || !explanation.explained() || !std::isfinite(explanation.value)) return std::nullopt;
  if (auto count = stopped_count(s, side, explanation)) return count;
  return stopped_sum(s, side, explanation);
}

void describe_stopped(const Suspect& s, const StoppedSide& found, Diagnosis& diagnosis) {
  const char* type = msda_dtype_name(found.side->arithmetic_of(s.id.gradient));
  Evidence& e = diagnosis.evidence;
  e["side"] = found.side->name;
  e["type"] = type;
  e["stopped"] = found.count.empty() ? "sum" : "count";
  e["exact"] = number(s.float64);
  if (!found.count.empty()) {
    diagnosis.why = fmt::format("{} returned {:.9g}: its sum is {}. The count needs a wider type, such as float32",
                                found.side->name, found.value, found.count);
    return;
  }
  e["addends"] = found.addends.values.size();
  e["sum_of_magnitudes"] = number(found.addends.magnitude());
  e["lost_addends"] = found.lost.addends;
  e["lost"] = number(found.lost.total);
  e["orders_tried"] = found.tried.orders;
  e["lowest_sum"] = number(found.tried.lowest);
  e["highest_sum"] = number(found.tried.highest);
  const std::string ends = found.tried.lowest == found.tried.highest
                               ? fmt::format("at {:.9g}", found.tried.lowest)
                               : fmt::format("between {:.9g} and {:.9g}", found.tried.lowest, found.tried.highest);
  const auto lost = static_cast<size_t>(found.lost.addends);
  diagnosis.why = fmt::format(
      "{} addends of total magnitude {:.6g} are {:.9g} together; in {} all {} orders tried end {}, since addends {} "
      "({} of them as given). The sum needs a wider type, such as float32",
      found.addends.values.size(), found.addends.magnitude(), found.addends.exact_sum(), type, found.tried.orders, ends,
      2 * lost > found.addends.values.size() ? "below half of a sum's last place are lost"
                                             : "are rounded to a sum's last place, and below half of it lost",
      thousands(found.lost.addends));
}

}  // namespace

std::optional<Diagnosis> test_stopped_sum(const Suspect& s) {
  std::optional<StoppedSide> found = stopped(s, s.observed, s.of_observed);
  const bool observed = found.has_value();
  if (!observed && !s.against_float64) found = stopped(s, s.expected, s.of_expected);
  if (!found) return std::nullopt;
  Diagnosis diagnosis{Cause::kStoppedSum, observed ? AtFault::kObserved : AtFault::kReference};
  if (s.wants_reasons) describe_stopped(s, *found, diagnosis);
  return diagnosis;
}

}  // namespace msda::analysis
