// Which scale factors kernels heed, and how. Where the sizes along an axis are equal, or in mode nearest one is twice
// the other, PyTorch's kernels for CPUs take the pixels one by one, or by twos, and not by the factor that was given;
// those for GPUs do so only where all sizes are equal, in which case no kernel runs but a copy.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "analysis/compare.h"
#include "analysis/operators/interpolate/call.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostExamined = 512;

std::shared_ptr<InterpolateCall> without_scales(const InterpolateCall& call,
                                                const std::function<bool(const Resized&)>& ignores) {
  auto other = std::make_shared<InterpolateCall>(call);
  for (int axis = 0; axis < call.axes_count; ++axis) {
    if (ignores(call.sides[axis])) other->sides[axis].scale = 0;
  }
  return other;
}

bool is_copied(const Resized& side) { return side.in == side.out; }

// As kernels for CPUs do. Mode nearest-exact is computed anew everywhere, and bicubic but for images of one size.
std::shared_ptr<InterpolateCall> as_on_a_cpu(const InterpolateCall& call) {
  const bool all_equal = std::all_of(call.sides, call.sides + call.axes_count, is_copied);
  return without_scales(call, [&](const Resized& side) {
    if (call.mode == ResizeMode::kNearestExact) return false;
    if (call.mode == ResizeMode::kCubic) return all_equal;
    return is_copied(side) || (call.mode == ResizeMode::kNearest && side.out == 2 * side.in);
  });
}

// As those for GPUs: those of mode nearest run in 1D and 3D even where nothing is resized, and leave out output pixels
// that the image times the factor does not reach.
std::shared_ptr<InterpolateCall> as_on_a_gpu(const InterpolateCall& call) {
  const bool all_equal = std::all_of(call.sides, call.sides + call.axes_count, is_copied);
  const bool copies = all_equal && (!call.is_nearest() || call.axes_count == 2);
  auto other = without_scales(call, [&](const Resized&) { return copies; });
  other->is_for_gpu = true;
  return other;
}

bool are_alike(const InterpolateCall& cpu, const InterpolateCall& gpu) {
  return std::equal(cpu.sides, cpu.sides + cpu.axes_count, gpu.sides, [&](const Resized& a, const Resized& b) {
    return a.scale == b.scale && (!gpu.is_nearest() || gpu.last_end(b) == b.out);
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

// The customary one, in which small gradients would look like any.
Tolerance tolerance_beside(const Tensor& gradient, const std::vector<int64_t>& elements) {
  const Tolerance customary = customary_tolerance(gradient.dtype);
  double sum = 0;
  for (const int64_t flat : elements) sum += std::isfinite(gradient.at(flat)) ? std::abs(gradient.at(flat)) : 0;
  const double mean = elements.empty() ? 0 : sum / static_cast<double>(elements.size());
  return {std::min(customary.atol, 0.1 * customary.rtol * mean), customary.rtol};
}

// How many of some elements of a gradient are not this call's, nor what it would have added to the buffer.
int64_t misses_by_scales(const InterpolateCall& call, const Tensor& gradient, const Tensor& before) {
  const std::vector<int64_t> some = some_of(gradient.elements());
  const Tolerance tolerance = tolerance_beside(gradient, some);
  const auto cache = call.new_cache();
  return std::ranges::count_if(some, [&](int64_t flat) {
    const double value = gradient.at(flat), exact = call.exact_value(flat, *cache);
    return !tolerance.holds(value, exact) && !(before && tolerance.holds(value - before.at(flat), exact));
  });
}

// By its name: upsample_nearest2d_backward_out_frame, upsample_linear1d_out_frame_backward. PyTorch's operators, which
// an archive may name for a CPU as well, are upsample_nearest2d_backward.
bool is_for_gpus(std::string_view kernel) {
  return kernel.find("upsample_") != kernel.npos && kernel.find("_out_frame") != kernel.npos;
}

}  // namespace

std::shared_ptr<const InterpolateCall> InterpolateCall::with_heeded_scales(std::string_view kernel,
                                                                           const Known& known) const {
  auto on_cpu = as_on_a_cpu(*this), on_gpu = as_on_a_gpu(*this);
  if (is_for_gpus(kernel)) return on_gpu;
  if (!known.recorded || are_alike(*on_cpu, *on_gpu)) return on_cpu;
  const int64_t cpu = misses_by_scales(*on_cpu, known.recorded, known.before),
                gpu = misses_by_scales(*on_gpu, known.recorded, known.before);
  if (known.reference && cpu > 0 && gpu > 0) {  // the kernel is wrong in any case: what it was to compute tells more
    const int64_t of_cpu = misses_by_scales(*on_cpu, known.reference, {}),
                  of_gpu = misses_by_scales(*on_gpu, known.reference, {});
    if (of_cpu != of_gpu) return of_gpu < of_cpu ? on_gpu : on_cpu;
  }
  return gpu < cpu ? on_gpu : on_cpu;
}

}  // namespace msda::analysis
