// A thread takes a pixel of a few planes, and looks at the outputs whose windows it lies in, in their order.
#include <algorithm>
#include <limits>

#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/max_pool/operator.h"
#include "kernels/tree_sum.h"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPlanes = 8;  // of a thread: windows are found once for all of them

struct Side {
  Division pixels, step;
  int64_t outputs, per, before, span;
  bool is_one_window;  // the windows of all outputs begin with the first pixel

  Side() = default;
  explicit Side(const msda_pool_side& side)
      : pixels(side.pixels),
        step(std::max<int64_t>(side.step, 1)),
        outputs(side.outputs),
        per(side.per),
        before(side.before),
        span(side.span),
        is_one_window(side.step == 0) {}

  struct Range {
    int32_t first, end;
    __device__ int32_t count() const { return max(end - first, 0); }
  };
  // Returns the outputs whose windows hold a pixel.
  __device__ Range around(uint32_t pixel) const {
    if (is_one_window) return {0, static_cast<int32_t>(outputs)};
    const int64_t last_begin = pixel + before, first_begin = last_begin - span + 1;
    const auto end = static_cast<int64_t>(step.divide(static_cast<uint32_t>((last_begin + 1) * per - 1)).quotient) + 1;
    const uint32_t first =
        first_begin <= 0 ? 0 : step.divide(static_cast<uint32_t>(first_begin * per + step.by - 1)).quotient;
    return {static_cast<int32_t>(first), static_cast<int32_t>(min(end, outputs))};
  }
};

// A thread's planes lie `step` apart: which of them is an image's, or a channel's, decides nothing else.
struct Planes {
  uint32_t count, step;
  int64_t apart_in, apart_out;  // elements between a thread's planes
};

template <class Stored>
struct PoolCall {
  const int64_t* indices;
  const Stored* grad_output;
  Result grad_input;
  Division groups;  // of channels
  Side x, y, z;
  int64_t outputs, channels;  // of an image
  Planes planes;
  bool is_of_images;  // the planes are images, which have one channel
  uint32_t count;     // threads
};

// Calls look(o) for the outputs within these ranges, in their order.
template <class Stored, class Look>
__device__ inline void visit(const PoolCall<Stored>& p, const Side::Range (&sides)[3], Look&& look) {
  for (int32_t k = sides[2].first; k < sides[2].end; ++k) {
    for (int32_t j = sides[1].first; j < sides[1].end; ++j) {
      const int64_t row = (k * p.y.outputs + j) * p.x.outputs;
      for (int32_t i = sides[0].first; i < sides[0].end; ++i) look((row + i) * p.channels);
    }
  }
}

// What the outputs have chosen of some planes at once, whose windows are the same, and whose loads do not wait for one
// another.
template <class Stored, class Real>
__device__ inline void add_few(const PoolCall<Stored>& p, int64_t first, uint32_t planes, int64_t pixel,
                               const Side::Range (&sides)[3], Real (&totals)[kPlanes]) {
  uint32_t begun = 0;
  visit(p, sides, [&](int64_t output) {
    int64_t chosen[kPlanes];
#pragma unroll
    for (uint32_t k = 0; k < kPlanes; ++k) {
      chosen[k] = k < planes ? p.indices[first + k * p.planes.apart_in + output] : -1;
    }
#pragma unroll
    for (uint32_t k = 0; k < kPlanes; ++k) {
      if (chosen[k] != pixel) continue;
      const Real addend = widened(p.grad_output[first + k * p.planes.apart_in + output]);
      totals[k] = (begun >> k & 1) != 0 ? totals[k] + addend : addend;
      begun |= 1u << k;
    }
  });
}

template <class Stored, class Real>
__device__ inline Real sum_of_many(const PoolCall<Stored>& p, int64_t first, int64_t pixel,
                                   const Side::Range (&sides)[3]) {
  TreeSum<Real> sum;
  visit(p, sides, [&](int64_t output) {
    if (p.indices[first + output] == pixel) sum.add(widened(p.grad_output[first + output]));
  });
  return sum.sum();
}

template <class Stored, class Real>
__global__ void __launch_bounds__(kThreads) max_pool_kernel(const __grid_constant__ PoolCall<Stored> p) {
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= p.count) return;
  const auto [pixels, channel] = p.groups.divide(thread);
  const auto [rows, x] = p.x.pixels.divide(pixels);
  const auto [slices, y] = p.y.pixels.divide(rows);
  const auto [image, z] = p.z.pixels.divide(slices);
  const int64_t pixel = (int64_t{z} * p.y.pixels.by + y) * p.x.pixels.by + x;
  const int64_t first = int64_t{image} * p.outputs * p.channels + channel;
  const int64_t of_image = int64_t{p.x.pixels.by} * p.y.pixels.by * p.z.pixels.by;
  const int64_t element = (int64_t{image} * of_image + pixel) * p.channels + channel;
  const uint32_t plane = p.is_of_images ? static_cast<uint32_t>(image) : static_cast<uint32_t>(channel);
  const uint32_t planes = min((p.planes.count - plane + p.planes.step - 1) / p.planes.step, uint32_t{kPlanes});
  const Side::Range sides[3] = {p.x.around(x), p.y.around(y), p.z.around(z)};
  Real totals[kPlanes] = {};
  const bool are_few = int64_t{sides[0].count()} * sides[1].count() * sides[2].count() <= kRun;
  if (are_few) add_few(p, first, planes, pixel, sides, totals);
#pragma unroll
  for (uint32_t k = 0; k < kPlanes; ++k) {
    if (k >= planes) break;
    if (!are_few) totals[k] = sum_of_many<Stored, Real>(p, first + k * p.planes.apart_in, pixel, sides);
    store_one(p.grad_input.data, p.grad_input.dtype, element + k * p.planes.apart_out, Real(0) + totals[k]);
  }
}

uint32_t parts_of(int64_t items) { return static_cast<uint32_t>((items + kPlanes - 1) / kPlanes); }

template <class Stored, class Real>
void run(const msda_max_pool_call& call, const Stored* grad_output, Result grad_input, Work& work) {
  PoolCall<Stored> p{};
  p.x = Side(call.side[0]), p.y = Side(call.side[1]), p.z = Side(call.side[2]);
  p.outputs = call.indices.shape[1];
  p.channels = call.indices.shape[2];
  p.is_of_images = p.channels == 1;
  const int64_t images = call.indices.shape[0],
                pixels = call.side[0].pixels * call.side[1].pixels * call.side[2].pixels,
                of_image = pixels * p.channels;
  // As many images at a time as the kernel's numbers can count.
  const int64_t at_once = std::numeric_limits<int32_t>::max() / of_image;
  for (int64_t image = 0; image < images; image += at_once) {
    const int64_t taken = std::min(at_once, images - image);
    const int64_t count = p.is_of_images ? taken : p.channels;
    const uint32_t step = parts_of(count);
    p.planes = {static_cast<uint32_t>(count), step, step * (p.is_of_images ? p.outputs : 1),
                step * (p.is_of_images ? pixels : 1)};
    p.groups = Division(p.is_of_images ? 1 : step);
    p.count = static_cast<uint32_t>((p.is_of_images ? step : taken * step) * pixels);
    p.indices = static_cast<const int64_t*>(call.indices.data) + image * p.outputs * p.channels;
    p.grad_output = grad_output + image * p.outputs * p.channels;
    p.grad_input = grad_input.from(image * of_image);
    launch("max_pool_kernel", max_pool_kernel<Stored, Real>, (p.count + kThreads - 1) / kThreads, kThreads, 0, work, p);
  }
}

}  // namespace

void max_pool_backward(const msda_max_pool_call& call, const Input& grad_output, msda_dtype dtype, bool float64,
                       Result grad_input, Work& work) {
  const auto run_as = [&]<class Stored, class Real>(Stored, Real) {
    run<Stored, Real>(call, grad_output.data<Stored>(), grad_input, work);
  };
  if (dtype == MSDA_FLOAT64) return run_as(double{}, double{});
  if (float64) return run_as(float{}, double{});
  if (dtype == MSDA_FLOAT16) return run_as(__half{}, float{});
  if (dtype == MSDA_BFLOAT16) return run_as(__nv_bfloat16{}, float{});
  run_as(float{}, float{});
}

}  // namespace msda::kernels::cuda
