// accumulation_order: the two sides add the same addends in different orders. The difference is within what any order
// can give, gamma_n * sum of magnitudes, and adding the very addends in other orders shows a difference of that size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "analysis/causes/causes.h"
#include "analysis/stages.h"

namespace msda::analysis {
namespace {

// The addends of a side's element as its dialect's arithmetic makes them, and what their sum is multiplied by.
struct Addends {
  std::vector<double> values;
  double scale = 1;
};

Addends addends_of(const Suspect& s, const Side& side) {
  const Call& call = s.call;
  Addends addends;
  if (s.id.is_pixel()) {
    const PixelId& pixel = s.id.pixel;
    const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
    addends.values = computed_addends(
        call, pixel, s.cache.get(side.conventions, pixel.b, pixel.m, pixel.l, precision).computed(pixel.s));
    return addends;
  }
  const SampleId& sample = s.id.sample;
  const auto stage = [&](msda_stage_id id) {
    return stage_of_sample(call, side.conventions, sample, id, MSDA_MODE_DETERMINISTIC);
  };
  const bool weights = s.id.gradient == Gradient::kAttentionWeights;
  const auto read = stage(weights ? MSDA_STAGE_SAMPLED_VALUE : MSDA_STAGE_CORNER_VALUES);
  const auto pixel = stage(MSDA_STAGE_PIXEL_COORDINATES), cell = stage(MSDA_STAGE_CELL);
  for (int64_t d = 0; d < call.D; ++d) {
    const double go = call.grad_output.at(sample.grad_output_row(call) + d);
    const auto at = [&](int64_t i) { return read[static_cast<size_t>(i * call.D + d)]; };
    double factor;
    if (weights) {
      factor = at(0);
    } else if (s.id.axis == 0) {
      const double fraction = pixel[1] - cell[1];
      factor = (1 - fraction) * (at(1) - at(0)) + fraction * (at(3) - at(2));
    } else {
      const double fraction = pixel[0] - cell[0];
      factor = (1 - fraction) * (at(2) - at(0)) + fraction * (at(3) - at(1));
    }
    addends.values.push_back(rounded_to(go * factor, call.arithmetic()));
  }
  if (!weights) {
    const auto& level = call.levels[static_cast<size_t>(sample.l)];
    const double side_length = side_of(level, s.id.axis) - (side.conventions.align_corners ? 1 : 0);
    addends.scale = sample.attention(call) * side_length;
  }
  return addends;
}

// From left to right in the side's arithmetic; a sum kept in the tensor's own 16-bit type rounds to that each time.
double sum_in_order(const std::vector<double>& addends, const std::vector<size_t>& order, msda_dtype arithmetic) {
  double sum = 0;
  for (const size_t i : order) sum = rounded_to(sum + addends[i], arithmetic);
  return sum;
}

struct Spread {
  double lowest = INFINITY, highest = -INFINITY;
};
constexpr int kRandomOrders = 64;

// As recorded, backwards, by size up and down, the positive first, and kRandomOrders seeded shuffles.
Spread try_orders(const Addends& addends, msda_dtype arithmetic) {
  Spread spread;
  std::vector<size_t> order(addends.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto record = [&] {
    const double sum = sum_in_order(addends.values, order, arithmetic) * addends.scale;
    spread.lowest = std::min(spread.lowest, sum);
    spread.highest = std::max(spread.highest, sum);
  };
  const auto& v = addends.values;
  record();
  std::ranges::reverse(order);
  record();
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return std::abs(v[a]) < std::abs(v[b]); });
  record();
  std::ranges::reverse(order);
  record();
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return v[a] > v[b]; });
  record();
  std::mt19937_64 random(20101104159);  // any seed; fixed, so that an explanation repeats
  for (int i = 0; i < kRandomOrders; ++i) {
    std::ranges::shuffle(order, random);
    record();
  }
  return spread;
}

// How far beyond the orders tried a result may lie: a GPU tries others.
constexpr double kBeyondTried = 4;

}  // namespace

std::optional<Diagnosis> test_accumulation_order(const Suspect& s) {
  const auto pair = best_pair(s);
  if (!pair || !pair->same_landing) return std::nullopt;
  const Addends observed = addends_of(s, s.observed);
  if (observed.values.size() < 3) return std::nullopt;  // two addends have one sum
  const auto exact_sum = [](const Addends& addends) {
    long double sum = 0;
    for (const double addend : addends.values) sum += addend;
    return static_cast<double>(sum) * addends.scale;
  };
  const double observed_sum = exact_sum(observed);
  // float64 stands for the exact sum of exact addends.
  const Addends expected = s.against_float64 ? Addends{} : addends_of(s, s.expected);
  const double expected_sum = s.against_float64 ? s.expected_value : exact_sum(expected);

  const double difference = s.observed_value - s.expected_value;
  const double from_addends = observed_sum - expected_sum;
  const double from_order = difference - from_addends;
  if (!(std::abs(from_order) > std::abs(from_addends))) return std::nullopt;  // other addends, not another order

  const msda_dtype arithmetic = s.observed.arithmetic_of(s.id.gradient);
  const double unit = Precision::of(arithmetic).unit;
  const auto n = static_cast<double>(observed.values.size());
  double magnitude = 0;
  for (const double addend : observed.values) magnitude += std::abs(addend * observed.scale);
  const double gamma = (n - 1) * unit / (1 - (n - 1) * unit);
  const double any_order =
      gamma * magnitude * (s.against_float64 ? 1 : 2) + storage_error(s.observed, s.id.gradient, s.observed_value);
  if (!(std::abs(difference) <= any_order)) return std::nullopt;

  const auto shown = [&](const Addends& addends, double sum, double value, const Side& side, Spread& spread) {
    spread = try_orders(addends, side.arithmetic_of(s.id.gradient));
    const double reach = std::max({spread.highest - sum, sum - spread.lowest, spread.highest - spread.lowest});
    return std::abs(value - sum) <= kBeyondTried * reach + storage_error(side, s.id.gradient, value);
  };
  Spread spread, expected_spread;
  if (!shown(observed, observed_sum, s.observed_value, s.observed, spread)) return std::nullopt;
  if (!s.against_float64 && !shown(expected, expected_sum, s.expected_value, s.expected, expected_spread))
    return std::nullopt;

  Diagnosis diagnosis{Cause::kAccumulationOrder, rounding_fault(s), Evidence::object(), ""};
  Evidence& e = diagnosis.evidence;
  e["addends"] = observed.values.size();
  e["sum_of_magnitudes"] = number(magnitude);
  e["condition_number"] = number(pair->observed->element.condition());
  e["difference"] = number(difference);
  e["from_order"] = number(from_order);
  e["from_addends"] = number(from_addends);
  e["any_order_bound"] = number(any_order);
  e["orders_tried"] = kRandomOrders + 5;
  e["lowest_sum"] = number(spread.lowest);
  e["highest_sum"] = number(spread.highest);
  diagnosis.why = fmt::format(
      "{} addends of total magnitude {:.6g}: {} other orders of the same addends give sums from {:.9g} to {:.9g}, and "
      "any order "
      "stays within {:.3g}; the difference is {:.3g}",
      observed.values.size(), magnitude, kRandomOrders + 5, spread.lowest, spread.highest, any_order,
      std::abs(difference));
  return diagnosis;
}

}  // namespace msda::analysis
