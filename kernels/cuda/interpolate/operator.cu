#include <algorithm>
#include <limits>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/interpolate/operator.h"
#include "kernels/cuda/interpolate/pixels.cuh"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostDown = 65535;  // of a grid of blocks

int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

// Returns whether interpolate_doubled_kernel computes it: if the ratio is exactly a half, no coordinate is rounded.
template <class Stored, class Real>
bool is_doubled(const InterpolateCall<Stored, Real>& p) {
  const auto is_doubled_axis = [](const Resize<Real>& axis) {
    return axis.mode <= MSDA_RESIZE_NEAREST_EXACT && axis.ratio == Real(0.5) && axis.out == 2 * axis.in;
  };
  return is_doubled_axis(p.axes[0]) && is_doubled_axis(p.axes[1]) && p.axes[2].in == 1 && p.axes[2].out == 1 &&
         p.axes[0].in % 2 == 0 && reinterpret_cast<uintptr_t>(p.grad_output) % sizeof(Four<Stored>) == 0 &&
         p.planes <= std::numeric_limits<int32_t>::max() / p.pixels;
}

template <class Stored, class Real>
void run(const CheckedInterpolate& checked, const Input& grad_output, Result grad_input, Work& work) {
  InterpolateCall<Stored, Real> p{};
  p.grad_output = grad_output.data<Stored>();
  p.grad_input = grad_input;
  p.planes = checked.planes;
  p.pixels = checked.pixels();
  p.outputs = checked.outputs();
  for (int axis = 0; axis < 3; ++axis) p.axes[axis] = Resize<Real>(checked.axes[axis]);

  if (is_doubled(p)) {
    const int64_t count = p.planes * p.pixels / 2;
    launch("interpolate_doubled_kernel", interpolate_doubled_kernel<Stored, Real>,
           static_cast<unsigned>(blocks_of(count, kDoubledThreads)), kDoubledThreads, 0, work, p.grad_output,
           p.grad_input, Division(p.axes[0].in / 2), static_cast<uint32_t>(count));
    return;
  }
  constexpr int64_t kCrowd = 128;  // readers of a pixel
  const Device device = work.target().device();
  const bool fills = p.pixels * p.planes >= int64_t{device.processors} * kTileThreads;
  if (!fills && p.outputs / p.pixels >= kCrowd) {
    const dim3 blocks(static_cast<unsigned>(p.pixels), static_cast<unsigned>(std::min(p.planes, kMostDown)));
    launch("interpolate_crowds_kernel", interpolate_crowds_kernel<Stored, Real>, blocks, kCrowdThreads, 0, work, p);
    return;
  }
  for (p.wide_log = 3; (1 << p.wide_log) < std::min(kMostWide, p.axes[0].in);) ++p.wide_log;
  p.tiles_across = static_cast<uint32_t>(blocks_of(p.axes[0].in, 1 << p.wide_log));
  p.tiles_down = static_cast<uint32_t>(blocks_of(p.axes[1].in, kTileThreads >> p.wide_log));
  const int64_t tiles = int64_t{p.tiles_across} * p.tiles_down * p.axes[2].in;
  // Blocks find their pixels' readers once for all of their planes.
  const int64_t wanted = blocks_of(int64_t{device.processors} * 32, tiles);
  const int64_t groups = std::min({blocks_of(p.planes, kSeveral), std::max<int64_t>(wanted, 1), kMostDown});
  launch("interpolate_tiles_kernel", interpolate_tiles_kernel<Stored, Real>,
         dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(groups)), kTileThreads, 0, work, p);
}

}  // namespace

void interpolate_backward(const CheckedInterpolate& checked, const Input& grad_output, msda_dtype dtype, bool float64,
                          Result grad_input, Work& work) {
  if (checked.planes == 0) return;
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, grad_output, grad_input, work);
  if (float64) return run<float, double>(checked, grad_output, grad_input, work);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, grad_output, grad_input, work);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, grad_output, grad_input, work);
  run<float, float>(checked, grad_output, grad_input, work);
}

}  // namespace msda::kernels::cuda
