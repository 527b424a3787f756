#include "analysis/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "analysis/orders.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostExamined = 4096;
constexpr double kNearlyAll = 0.9;

// Elements that distinguish types: with one or two addends the sum is the same in any type.
struct Telling {
  std::vector<ElementId> all, unexplained;  // the latter by the side's arithmetic
};

Telling telling_elements(const Call& call, const Side& side, Gradient gradient, ContributionCache& cache) {
  constexpr int64_t kFewestAddends = 3;
  const Tensor& tensor = side.of(gradient);
  const int64_t total = tensor.elements(), step = std::max<int64_t>(1, total / kMostExamined);
  Telling elements;
  for (int64_t flat = 0; flat < total; flat += step) {
    const double value = tensor.at(flat);
    if (!std::isfinite(value) || value == 0) continue;
    const ElementId id = element_id(call, gradient, flat);
    const Explanation explanation = explain(call, side, id, cache);
    if (explanation.exact().element.terms < kFewestAddends) continue;
    elements.all.push_back(id);
    if (!explanation.explained()) elements.unexplained.push_back(id);
  }
  return elements;
}

// Whether the values' magnitudes are mostly larger, or mostly smaller, than those of sums in the type. Rounding is
// unbiased: among n elements as many are larger as smaller, up to a few times sqrt(n).
bool lie_to_one_side(const Call& call, const Side& side, const std::vector<ElementId>& elements, msda_dtype type,
                     ContributionCache& cache) {
  constexpr int kShuffles = 8;
  constexpr double kSigmas = 5;
  double above = 0, below = 0;
  for (const ElementId& id : elements) {
    const Addends addends = addends_of(call, side.conventions, id, cache);
    const Spread spread = try_orders(addends, type, Orders::kLikely, kShuffles);
    const double middle = (spread.lowest + spread.highest) / 2, value = side.of(id.gradient).at(id.flat);
    (std::abs(value) > std::abs(middle) ? above : below) += value != middle;
  }
  return std::abs(above - below) > kSigmas * std::sqrt(above + below);
}

// Whether any value is not representable in float32.
bool needs_float64(const Tensor& tensor) {
  const int64_t total = tensor.elements();
  for (int64_t flat = 0; flat < total; ++flat) {
    const double value = tensor.at(flat);
    if (std::isfinite(value) && static_cast<double>(static_cast<float>(value)) != value) return true;
  }
  return false;
}

}  // namespace

msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, ContributionCache& cache) {
  const Tensor& tensor = side.of(gradient);
  if (!tensor) return call.arithmetic();
  if (tensor.dtype == MSDA_FLOAT64 && call.arithmetic() != MSDA_FLOAT64 && needs_float64(tensor)) return MSDA_FLOAT64;
  if (tensor.dtype != MSDA_FLOAT16 && tensor.dtype != MSDA_BFLOAT16) return call.arithmetic();
  msda_dtype& arithmetic = side.arithmetic[static_cast<int>(gradient)];
  arithmetic = MSDA_FLOAT32;
  const auto [elements, beyond_float32] = telling_elements(call, side, gradient, cache);
  const auto few = static_cast<std::ptrdiff_t>((1 - kNearlyAll) * static_cast<double>(elements.size()));
  if (std::ssize(beyond_float32) <= few) return MSDA_FLOAT32;
  arithmetic = tensor.dtype;
  const auto unexplained =
      std::ranges::count_if(elements, [&](const ElementId& id) { return !explain(call, side, id, cache).explained(); });
  if (unexplained > few || lie_to_one_side(call, side, beyond_float32, tensor.dtype, cache)) return MSDA_FLOAT32;
  return tensor.dtype;
}

}  // namespace msda::analysis
