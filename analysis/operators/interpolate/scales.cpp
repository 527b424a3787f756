// Which scale factors kernels heed, and how. Where the sizes along an axis are equal, or in mode nearest one is twice
// the other, PyTorch's kernels for CPUs take the pixels one by one, or by twos, and not by the factor that was given;
// those for GPUs do so only where all sizes are equal, in which case no kernel runs but a copy. Others may heed all.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/compare.h"
#include "analysis/operators/interpolate/call.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostExamined = 512;

std::shared_ptr<InterpolateCall> without_scales(const InterpolateCall& call,
                                                const std::function<bool(const Resized&)>& ignores) {
  auto changed = std::make_shared<InterpolateCall>(call);
  for (int axis = 0; axis < call.axes_count; ++axis) {
    if (ignores(call.sides[axis])) changed->sides[axis].scale = 0;
  }
  changed->take_sizes();
  return changed;
}

bool is_copied(const Resized& side) { return side.in == side.out; }

// Ignores factors as kernels for CPUs do: mode nearest-exact none, bicubic all if no axis is resized.
std::shared_ptr<InterpolateCall> as_on_a_cpu(const InterpolateCall& call) {
  const bool all_equal = std::all_of(call.sides, call.sides + call.axes_count, is_copied);
  return without_scales(call, [&](const Resized& side) {
    if (call.mode == ResizeMode::kNearestExact) return false;
    if (call.mode == ResizeMode::kCubic) return all_equal;
    return is_copied(side) || (call.mode == ResizeMode::kNearest && side.out == 2 * side.in);
  });
}

// Uses factors as kernels for GPUs do: those of mode nearest run in 1D and 3D even where nothing is resized, and leave
// out output pixels that the image times the factor does not reach.
std::shared_ptr<InterpolateCall> as_on_a_gpu(const InterpolateCall& call) {
  const bool all_equal = std::all_of(call.sides, call.sides + call.axes_count, is_copied);
  const bool copies = all_equal && (!call.is_nearest() || call.axes_count == 2);
  auto changed = without_scales(call, [&](const Resized&) { return copies; });
  changed->is_for_gpu = true;
  return changed;
}

using Heeding = std::vector<std::shared_ptr<const InterpolateCall>>;

bool are_alike(const InterpolateCall& first, const InterpolateCall& second) {
  return std::equal(first.sides, first.sides + first.axes_count, second.sides, [&](const Resized& a, const Resized& b) {
    return a.scale == b.scale && (!first.is_nearest() || first.last_end(a) == second.last_end(b));
  });
}

// Chosen at random: every n-th may lie in the same columns.
std::vector<int64_t> some_of(int64_t total) {
  std::vector<int64_t> some;
  std::mt19937_64 random;
  for (int64_t i = 0; i < std::min(total, kMostExamined); ++i) {
    some.push_back(total <= kMostExamined ? i : static_cast<int64_t>(random() % static_cast<uint64_t>(total)));
  }
  return some;
}

// Returns the customary one, in which small gradients would look like any.
Tolerance tolerance_beside(const Tensor& gradient, const std::vector<int64_t>& elements) {
  const Tolerance customary = customary_tolerance(gradient.dtype);
  double sum = 0;
  for (const int64_t flat : elements) sum += std::isfinite(gradient.at(flat)) ? std::abs(gradient.at(flat)) : 0;
  const double mean = elements.empty() ? 0 : sum / static_cast<double>(elements.size());
  return {std::min(customary.atol, 0.1 * customary.rtol * mean), customary.rtol};
}

// What some elements of a gradient say.
struct NearestWay {
  size_t way = 0;                    // to which they are nearest
  int64_t deciding = 0, misses = 0;  // elements for which the ways differ, and those that miss the nearest one
  bool is_explained() const { return 4 * misses <= deciding; }  // but for single mistakes
};

NearestWay nearest_way_of(const Tensor& gradient, const Tensor& before, const Heeding& ways) {
  const std::vector<int64_t> some = some_of(gradient.elements());
  const Tolerance tolerance = tolerance_beside(gradient, some);
  // Returns the share of the tolerance by which an element, or what the kernel added to the buffer, misses a value: 1
  // at most.
  const auto miss = [&](int64_t flat, double exact) {
    const auto share = [&](double value) {
      if (value == exact) return 0.0;
      return tolerance.holds(value, exact)
                 ? std::abs(value - exact) / (tolerance.atol + tolerance.rtol * std::abs(exact))
                 : 1.0;
    };
    const double value = gradient.at(flat);
    return before ? std::min(share(value), share(value - before.at(flat))) : share(value);
  };
  std::vector<std::vector<double>> exact;
  std::vector<double> off;
  for (const auto& way : ways) {
    const auto cache = way->new_cache();
    exact.emplace_back();
    off.push_back(0);
    for (const int64_t flat : some) {
      exact.back().push_back(float64_value(*way, {way->gradient(), flat, {}}, *cache));
      off.back() += miss(flat, exact.back().back());
    }
  }
  NearestWay found{static_cast<size_t>(std::ranges::min_element(off) - off.begin())};
  for (size_t i = 0; i < some.size(); ++i) {
    const double nearest = exact[found.way][i];
    if (std::ranges::all_of(exact, [&](const auto& values) { return tolerance.holds(values[i], nearest); })) continue;
    ++found.deciding;
    found.misses += miss(some[i], nearest) >= 1;
  }
  return found;
}

// Decides by the name: upsample_nearest2d_backward_out_frame, upsample_linear1d_out_frame_backward. PyTorch's
// operators, which an archive may name for a CPU as well, are upsample_nearest2d_backward.
bool is_for_gpus(std::string_view kernel) {
  return kernel.find("upsample_") != kernel.npos && kernel.find("_out_frame") != kernel.npos;
}

}  // namespace

std::shared_ptr<const InterpolateCall> InterpolateCall::with_heeded_scales(std::string_view kernel,
                                                                           const Known& known) const {
  if (is_for_gpus(kernel)) return as_on_a_gpu(*this);
  const bool is_pytorchs = kernel.find("upsample") != kernel.npos;
  const auto as_given = std::make_shared<const InterpolateCall>(*this);
  Heeding ways{as_on_a_cpu(*this)};
  const auto add = [&](std::shared_ptr<const InterpolateCall> way) {
    if (std::ranges::none_of(ways, [&](const auto& known_way) { return are_alike(*known_way, *way); }))
      ways.push_back(way);
  };
  add(as_on_a_gpu(*this));
  if (!is_pytorchs) add(as_given);
  if (!known.recorded || ways.size() == 1) return ways.front();
  const NearestWay recorded = nearest_way_of(known.recorded, known.before, ways);
  if (known.reference) {
    const NearestWay reference = nearest_way_of(known.reference, {}, ways);
    const auto& way = ways[reference.way];
    // If two ways use other factors, the one that uses the capture's is right. A kernel that is wrong in any case shows
    // less than the reference, which says what it was to compute.
    const bool heeds_given = !is_pytorchs && reference.misses == 0 && are_alike(*way, *as_given);
    if (heeds_given || (recorded.misses > 0 && reference.is_explained())) return way;
  }
  // Single values that another way happens to give are no reason not to take the capture at its word.
  return recorded.is_explained() || is_pytorchs ? ways[recorded.way] : as_given;
}

}  // namespace msda::analysis
