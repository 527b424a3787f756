#include "analysis/judge/detect_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>
#include <vector>

#include "analysis/model/explain.h"
#include "analysis/numbers/reordered_sums.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostExamined = 4096;

// Returns evenly chosen elements that are finite and not 0: an element that a kernel never added to shows nothing of
// its sums.
std::vector<ElementId> examined_elements(const Call& call, const Tensor& tensor, Gradient gradient) {
  std::vector<int64_t> filled;
  for (int64_t flat = 0, total = tensor.elements(); flat < total; ++flat) {
    const double value = tensor.at(flat);
    if (std::isfinite(value) && value != 0) filled.push_back(flat);
  }
  const size_t step = std::max<size_t>(1, filled.size() / kMostExamined);
  std::vector<ElementId> elements;
  for (size_t i = 0; i < filled.size(); i += step) elements.push_back(call.element_id(gradient, filled[i]));
  return elements;
}

// Returns whether any value is not representable in float32.
bool needs_float64(const Tensor& tensor) {
  const int64_t total = tensor.elements();
  for (int64_t flat = 0; flat < total; ++flat) {
    const double value = tensor.at(flat);
    if (std::isfinite(value) && static_cast<double>(static_cast<float>(value)) != value) return true;
  }
  return false;
}

// Counts channels of a pixel once whose values are equal and whose sums are: they have the same addends, and so the
// same roundings.
class CountedChannels {
 public:
  explicit CountedChannels(const Call& call) : call_(call) {}

  bool first(const ElementId& id, double value, double sum) {
    return seen_.insert({call_.weights_of(id.gradient, id.flat), value, std::isfinite(sum) ? sum : INFINITY}).second;
  }

 private:
  const Call& call_;
  std::set<std::tuple<int64_t, double, double>> seen_;
};

}  // namespace

double sum_in(const Call& call, const Side& side, const ElementId& id, msda_dtype type, Cache& cache) {
  const Addends addends = side.version_of(call).addends(id, cache);
  const Spread first = try_orders(addends, type, Orders::kLikely, 0, [](const Spread&) { return true; });
  return rounded_to(first.lowest, side.of(id.gradient).dtype);
}

bool lie_to_one_side(const Call& call, const Side& side, const std::vector<ElementId>& elements, msda_dtype type,
                     Cache& cache) {
  constexpr int kShuffles = 8;
  constexpr double kSigmas = 5;
  double elements_seen = 0, lean = 0, lean_of_sums = 0;
  CountedChannels counted(call);
  for (const ElementId& id : elements) {
    const Addends addends = side.version_of(call).addends(id, cache);
    const Spread spread = try_orders(addends, type, Orders::kLikely, kShuffles);
    const double middle = (spread.lowest + spread.highest) / 2, value = side.of(id.gradient).at(id.flat);
    if (value == middle || !counted.first(id, value, middle)) continue;
    ++elements_seen;
    lean += std::abs(value) > std::abs(middle) ? 1 : -1;
    const double sum = sum_in(call, side, id, type, cache);
    if (sum != middle) lean_of_sums += std::abs(sum) > std::abs(middle) ? 1 : -1;
  }
  // Where many elements have the same addends, their sums lean as well.
  return std::abs(lean) > kSigmas * std::sqrt(elements_seen) + std::abs(lean_of_sums);
}

msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, Cache& cache) {
  const Tensor& tensor = side.of(gradient);
  if (!tensor) return call.arithmetic();
  if (tensor.dtype == MSDA_FLOAT64 && call.arithmetic() != MSDA_FLOAT64 && needs_float64(tensor)) return MSDA_FLOAT64;
  if (!is_16_bits(tensor.dtype)) return call.arithmetic();
  const auto explained = [&](const ElementId& id, msda_dtype arithmetic) {
    side.arithmetic[gradient.place()] = arithmetic;
    return explain(call, side, id, cache).explained();
  };
  // Counts elements that sums in the type explain; what neither type explains is a mistake, and no evidence. If the
  // kernel sums in the type, about `expected` of them are beyond float32.
  std::vector<ElementId> beyond_float32;
  double expected = 0;
  CountedChannels counted(call);
  for (const ElementId& id : examined_elements(call, tensor, gradient)) {
    const double sum = sum_in(call, side, id, tensor.dtype, cache);
    if (!counted.first(id, tensor.at(id.flat), sum)) continue;
    const bool within_float32 = explained(id, MSDA_FLOAT32);
    const bool sum_within = !std::isfinite(sum) || explain(call, side, id, sum, cache).explained();
    if (within_float32 ? sum_within : !explained(id, tensor.dtype)) continue;
    expected += !sum_within;
    if (!within_float32) beyond_float32.push_back(id);
  }
  const auto found = static_cast<double>(beyond_float32.size());
  // If the values do not decide, the kernels that exist do: coordinates in few bits may well lean to one side, and what
  // cancels before it is added up leaves fewer elements beyond float32.
  if (call.has_narrow_kernels()) {
    return found < expected / 16 - std::sqrt(expected) / 4 ? MSDA_FLOAT32 : tensor.dtype;
  }
  if (found < expected / 2 - 2 * std::sqrt(expected)) return MSDA_FLOAT32;
  if (found == 0) return MSDA_FLOAT32;
  side.arithmetic[gradient.place()] = tensor.dtype;
  return lie_to_one_side(call, side, beyond_float32, tensor.dtype, cache) ? MSDA_FLOAT32 : tensor.dtype;
}

}  // namespace msda::analysis
