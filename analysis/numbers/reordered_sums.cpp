#include "analysis/numbers/reordered_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

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

Spread try_orders(const Addends& addends, msda_dtype arithmetic, Orders orders, int shuffles, const Enough& enough) {
  const auto& v = addends.values;
  Spread spread{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0};
  std::vector<uint32_t> order(v.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto is_done = [&] {
    double sum = 0;
    for (const uint32_t i : order) sum = rounded_to(sum + rounded_to(v[i], arithmetic), arithmetic);
    sum *= addends.scale;
    if (!std::isfinite(spread.lowest)) {
      if (std::isfinite(sum) || spread.orders == 0) spread.lowest = spread.highest = sum;
    } else if (std::isfinite(sum)) {  // an order that overflows on the way says nothing of finite results
      spread.lowest = std::min(spread.lowest, sum);
      spread.highest = std::max(spread.highest, sum);
    }
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
  if (!std::isfinite(spread.lowest)) return 0;  // every order overflows
  const double farthest = std::max({spread.highest - exact_sum, exact_sum - spread.lowest, 0.0});
  return farthest + kBeyondTried * (spread.highest - spread.lowest);
}

}  // namespace msda::analysis
