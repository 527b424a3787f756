#include "analysis/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "analysis/orders.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostExamined = 4096;

// Elements that are finite and not 0, evenly chosen: what a kernel never added to tells nothing of its sums.
std::vector<ElementId> examined_elements(const Call& call, const Tensor& tensor, Gradient gradient) {
  std::vector<int64_t> filled;
  for (int64_t flat = 0, total = tensor.elements(); flat < total; ++flat) {
    const double value = tensor.at(flat);
    if (std::isfinite(value) && value != 0) filled.push_back(flat);
  }
  const size_t step = std::max<size_t>(1, filled.size() / kMostExamined);
  std::vector<ElementId> elements;
  for (size_t i = 0; i < filled.size(); i += step) elements.push_back(element_id(call, gradient, filled[i]));
  return elements;
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

double sum_in(const Call& call, const Side& side, const ElementId& id, msda_dtype type, ContributionCache& cache) {
  const Addends addends = addends_of(call, side.conventions, id, cache);
  const Spread first = try_orders(addends, type, Orders::kLikely, 0, [](const Spread&) { return true; });
  return rounded_to(first.lowest, side.of(id.gradient).dtype);
}

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

msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, ContributionCache& cache) {
  const Tensor& tensor = side.of(gradient);
  if (!tensor) return call.arithmetic();
  if (tensor.dtype == MSDA_FLOAT64 && call.arithmetic() != MSDA_FLOAT64 && needs_float64(tensor)) return MSDA_FLOAT64;
  if (tensor.dtype != MSDA_FLOAT16 && tensor.dtype != MSDA_BFLOAT16) return call.arithmetic();
  const auto explained = [&](const ElementId& id, msda_dtype arithmetic) {
    side.arithmetic[static_cast<int>(gradient)] = arithmetic;
    return explain(call, side, id, cache).explained();
  };
  // Elements that sums in the type explain: what neither does is a mistake, and tells nothing. Of these, as many should
  // be beyond float32 as sums in the type leave there, but for chance.
  std::vector<ElementId> beyond_float32;
  double expected = 0;
  for (const ElementId& id : examined_elements(call, tensor, gradient)) {
    const bool within_float32 = explained(id, MSDA_FLOAT32);
    const double sum = sum_in(call, side, id, tensor.dtype, cache);
    const bool sum_within = !std::isfinite(sum) || explain(call, side, id, sum, cache).explained();
    if (within_float32 ? sum_within : !explained(id, tensor.dtype)) continue;
    expected += !sum_within;
    if (!within_float32) beyond_float32.push_back(id);
  }
  const auto found = static_cast<double>(beyond_float32.size());
  if (found == 0 || found < expected / 2 - 2 * std::sqrt(expected)) return MSDA_FLOAT32;
  side.arithmetic[static_cast<int>(gradient)] = tensor.dtype;
  return lie_to_one_side(call, side, beyond_float32, tensor.dtype, cache) ? MSDA_FLOAT32 : tensor.dtype;
}

}  // namespace msda::analysis
