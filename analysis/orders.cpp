#include "analysis/orders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/sample.h"

namespace msda::analysis {

double Addends::exact_sum() const {
  long double sum = 0;
  for (const double value : values) sum += value;
  return static_cast<double>(sum) * scale;
}

double Addends::magnitude() const {
  double sum = 0;
  for (const double value : values) sum += std::abs(value);
  return sum * std::abs(scale);
}

namespace {

// A sample's addends in the arithmetic of Real, exactly those that kernels/cpu/loops.cpp sums.
template <class Real>
Addends sample_addends(const Call& call, const Conventions& conventions, const ElementId& id) {
  const SampleId& sample = id.sample;
  const LevelSize& level = call.levels[static_cast<size_t>(sample.l)];
  const auto locate = [&](int axis) {
    return kernels::locate(conventions.dialect, conventions.padding, conventions.align_corners,
                           static_cast<Real>(sample.location(call, axis)), side_of(level, axis));
  };
  const auto x = locate(0), y = locate(1);
  Addends addends;
  if (!x.sampled || !y.sampled) return addends;
  const auto weights = kernels::corner_weights(y.fraction, x.fraction);
  const CornerRows rows = corner_rows(conventions, level, x.low, y.low);
  for (int64_t d = 0; d < call.D; ++d) {
    const auto v = [&](size_t corner) {
      return rows[corner] < 0
                 ? Real(0)
                 : static_cast<Real>(call.value.at(value_element(call, sample.b, rows[corner], sample.m, d)));
    };
    const Real factor = id.gradient == Gradient::kAttentionWeights
                            ? kernels::interpolate(weights, v(0), v(1), v(2), v(3))
                        : id.axis == 0 ? kernels::slope_across(v(0), v(1), v(2), v(3), y.fraction)
                                       : kernels::slope_across(v(0), v(2), v(1), v(3), x.fraction);
    const Real product = static_cast<Real>(call.grad_output.at(sample.grad_output_row(call) + d)) * factor;
    addends.values.push_back(static_cast<double>(product));
  }
  if (id.gradient == Gradient::kSamplingLocations) {
    addends.scale = sample.attention(call) * static_cast<double>(id.axis == 0 ? x.slope : y.slope);
  }
  return addends;
}

}  // namespace

Addends addends_of(const Call& call, const Conventions& conventions, const ElementId& id, ContributionCache& cache) {
  const bool wide = call.arithmetic() == MSDA_FLOAT64;
  if (!id.is_pixel())
    return wide ? sample_addends<double>(call, conventions, id) : sample_addends<float>(call, conventions, id);
  const PixelId& pixel = id.pixel;
  const auto contributions = cache.get(conventions, pixel.b, pixel.m, pixel.l, Precision::of(call.arithmetic()));
  return {computed_addends(call, pixel, contributions->computed(pixel.s)), 1};
}

Spread try_orders(const Addends& addends, msda_dtype arithmetic, Orders orders, int shuffles, const Enough& enough) {
  const auto& v = addends.values;
  Spread spread{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0};
  std::vector<uint32_t> order(v.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto is_done = [&] {
    double sum = 0;
    for (const uint32_t i : order) sum = rounded_to(sum + rounded_to(v[i], arithmetic), arithmetic);
    spread.lowest = std::min(spread.lowest, sum * addends.scale);
    spread.highest = std::max(spread.highest, sum * addends.scale);
    ++spread.orders;
    return enough && enough(spread);
  };
  if (is_done()) return spread;
  std::ranges::reverse(order);
  if (is_done()) return spread;
  if (orders == Orders::kAll) {
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return std::abs(v[a]) < std::abs(v[b]); });
    if (is_done()) return spread;
    std::ranges::reverse(order);
    if (is_done()) return spread;
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return v[a] > v[b]; });
    if (is_done()) return spread;
  }
  std::mt19937_64 random(20101104159);  // any fixed seed, so that explanations are reproducible
  for (int i = 0; i < shuffles; ++i) {
    std::ranges::shuffle(order, random);
    if (is_done()) return spread;
  }
  return spread;
}

double reach_of(const Spread& spread, double exact_sum) {
  return kBeyondTried *
         std::max({spread.highest - exact_sum, exact_sum - spread.lowest, spread.highest - spread.lowest});
}

}  // namespace msda::analysis
