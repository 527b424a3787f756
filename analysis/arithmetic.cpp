#include "analysis/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
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
  for (size_t i = 0; i < filled.size(); i += step) elements.push_back(call.element_id(gradient, filled[i]));
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

// Counts channels of a pixel once whose values are equal and whose sums are: they have the same addends, and so the
// same roundings.
class Counted {
 public:
  explicit Counted(const Call& call) : call_(call) {}

  bool first(const ElementId& id, double value, double sum) {
    return seen_.insert({call_.weights_of(id.gradient, id.flat), value, std::isfinite(sum) ? sum : INFINITY}).second;
  }

 private:
  const Call& call_;
  std::set<std::tuple<int64_t, double, double>> seen_;
};

// A sum in the type, in the order of the addends.
double sum_of(const Addends& addends, const Side& side, const ElementId& id, msda_dtype type) {
  const Spread first = try_orders(addends, type, Orders::kLikely, 0, [](const Spread&) { return true; });
  return rounded_to(first.lowest, side.of(id.gradient).dtype);
}

// Whether the elements' values lie to one side of what sums of these addends give.
template <class GetAddends, class GetVoter>
bool lean(const Call& call, const Side& side, const std::vector<ElementId>& elements, msda_dtype type,
          const GetAddends& addends_of, const GetVoter& voter_of, bool skips_zeros) {
  constexpr int kShuffles = 8;
  constexpr double kSigmas = 5;
  struct Votes {
    double of_values = 0, of_sums = 0;
  };
  std::map<int64_t, Votes> voters;
  Counted counted(call);
  for (const ElementId& id : elements) {
    const Addends addends = addends_of(id);
    const Spread spread = try_orders(addends, type, Orders::kLikely, kShuffles);
    const double middle = (spread.lowest + spread.highest) / 2, value = side.of(id.gradient).at(id.flat);
    // Beside nothing at all, every value is large.
    if (value == middle || (skips_zeros && middle == 0) || !counted.first(id, value, middle)) continue;
    Votes& votes = voters[voter_of(id)];
    votes.of_values += std::abs(value) > std::abs(middle) ? 1 : -1;
    const double sum = sum_of(addends, side, id, type);
    if (sum != middle) votes.of_sums += std::abs(sum) > std::abs(middle) ? 1 : -1;
  }
  const auto sign = [](double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; };
  double of_values = 0, of_sums = 0;
  for (const auto& [voter, votes] : voters) {
    of_values += sign(votes.of_values);
    of_sums += sign(votes.of_sums);
  }
  // Where many elements have the same addends, their sums lean as well.
  return std::abs(of_values) > kSigmas * std::sqrt(static_cast<double>(voters.size())) + std::abs(of_sums);
}

}  // namespace

double sum_in(const Call& call, const Side& side, const ElementId& id, msda_dtype type, Cache& cache) {
  return sum_of(call.addends(side.conventions, id, cache), side, id, type);
}

bool lie_to_one_side(const Call& call, const Side& side, const std::vector<ElementId>& elements, msda_dtype type,
                     Cache& cache) {
  const auto as_usual = [&](const ElementId& id) { return call.addends(side.conventions, id, cache); };
  const auto narrow = [&](const ElementId& id) { return call.narrow_addends(side.conventions, id, type, cache); };
  const auto each = [](const ElementId& id) { return id.flat; };
  if (!lean(call, side, elements, type, as_usual, each, /*skips_zeros=*/false)) return false;
  // A pixel's channels share the errors of their weights, which coordinates in few bits make the largest.
  const auto pixel = [&](const ElementId& id) { return call.weights_of(id.gradient, id.flat); };
  return !call.has_narrow_kernels() || lean(call, side, elements, type, narrow, pixel, /*skips_zeros=*/true);
}

msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, Cache& cache) {
  const Tensor& tensor = side.of(gradient);
  if (!tensor) return call.arithmetic();
  if (tensor.dtype == MSDA_FLOAT64 && call.arithmetic() != MSDA_FLOAT64 && needs_float64(tensor)) return MSDA_FLOAT64;
  if (tensor.dtype != MSDA_FLOAT16 && tensor.dtype != MSDA_BFLOAT16) return call.arithmetic();
  const auto explained = [&](const ElementId& id, msda_dtype arithmetic) {
    side.arithmetic[gradient.place()] = arithmetic;
    return explain(call, side, id, cache).explained();
  };
  // Elements that sums in the type explain: what neither does is a mistake, and tells nothing. Of these, as many should
  // be beyond float32 as sums in the type leave there, but for chance.
  std::vector<ElementId> beyond_float32;
  double expected = 0, expected_of_narrow = 0;
  Counted counted(call);
  for (const ElementId& id : examined_elements(call, tensor, gradient)) {
    const double sum = sum_in(call, side, id, tensor.dtype, cache);
    if (!counted.first(id, tensor.at(id.flat), sum)) continue;
    const bool within_float32 = explained(id, MSDA_FLOAT32);
    const auto lies_beyond = [&](double x) {
      return std::isfinite(x) && !explain(call, side, id, x, cache).explained();
    };
    const bool sum_beyond = lies_beyond(sum);
    const bool narrow_beyond = call.has_narrow_kernels()
                                   ? lies_beyond(sum_of(call.narrow_addends(side.conventions, id, tensor.dtype, cache),
                                                        side, id, tensor.dtype))
                                   : sum_beyond;
    if (!within_float32 && !explained(id, tensor.dtype)) continue;
    expected += sum_beyond;
    expected_of_narrow += narrow_beyond;
    if (!within_float32) beyond_float32.push_back(id);
  }
  const auto found = static_cast<double>(beyond_float32.size());
  expected = std::min(expected, expected_of_narrow);
  if (found < expected / 2 - 2 * std::sqrt(expected)) return MSDA_FLOAT32;
  // Where the values do not tell, the kernels that there are do.
  if (found == 0) return call.has_narrow_kernels() ? tensor.dtype : MSDA_FLOAT32;
  side.arithmetic[gradient.place()] = tensor.dtype;
  return lie_to_one_side(call, side, beyond_float32, tensor.dtype, cache) ? MSDA_FLOAT32 : tensor.dtype;
}

}  // namespace msda::analysis
