// A thread takes one element of grad_input, and looks at the outputs whose windows it lies in, in their order.
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

template <class Stored>
struct PoolCall {
  const int64_t* indices;
  const Stored* grad_output;
  Result grad_input;
  Division channels;
  Side x, y, z;
  int64_t outputs;  // of an image
  uint32_t count;   // elements
};

// Calls add(grad_output) for the outputs within these ranges that have chosen the pixel, in their order.
template <class Stored, class Add>
__device__ inline void visit(const PoolCall<Stored>& p, int64_t first, int64_t pixel, const Side::Range (&sides)[3],
                             Add&& add) {
  for (int32_t k = sides[2].first; k < sides[2].end; ++k) {
    for (int32_t j = sides[1].first; j < sides[1].end; ++j) {
      const int64_t row = (k * p.y.outputs + j) * p.x.outputs;
      for (int32_t i = sides[0].first; i < sides[0].end; ++i) {
        const int64_t at = first + (row + i) * p.channels.by;
        if (p.indices[at] == pixel) add(widened(p.grad_output[at]));
      }
    }
  }
}

template <class Stored, class Real>
__global__ void __launch_bounds__(kThreads) max_pool_kernel(const __grid_constant__ PoolCall<Stored> p) {
  const uint32_t element = blockIdx.x * kThreads + threadIdx.x;
  if (element >= p.count) return;
  const auto [pixels, channel] = p.channels.divide(element);
  const auto [rows, x] = p.x.pixels.divide(pixels);
  const auto [slices, y] = p.y.pixels.divide(rows);
  const auto [image, z] = p.z.pixels.divide(slices);
  const int64_t pixel = (int64_t{z} * p.y.pixels.by + y) * p.x.pixels.by + x;
  const int64_t first = image * p.outputs * p.channels.by + channel;
  const Side::Range sides[3] = {p.x.around(x), p.y.around(y), p.z.around(z)};
  Real total(0);
  if (int64_t{sides[0].count()} * sides[1].count() * sides[2].count() <= kRun) {
    bool begins = true;
    visit(p, first, pixel, sides, [&](Real addend) {
      total = begins ? addend : total + addend;
      begins = false;
    });
  } else {
    TreeSum<Real> sum;
    visit(p, first, pixel, sides, [&](Real addend) { sum.add(addend); });
    total = sum.sum();
  }
  store_one(p.grad_input.data, p.grad_input.dtype, element, Real(0) + total);
}

template <class Stored, class Real>
void run(const msda_max_pool_call& call, const Stored* grad_output, Result grad_input, Work& work) {
  PoolCall<Stored> p{};
  p.channels = Division(call.indices.shape[2]);
  p.x = Side(call.side[0]), p.y = Side(call.side[1]), p.z = Side(call.side[2]);
  p.outputs = call.indices.shape[1];
  const int64_t images = call.indices.shape[0], channels = call.indices.shape[2],
                of_image = call.side[0].pixels * call.side[1].pixels * call.side[2].pixels * channels;
  // As many images at a time as the kernel's numbers can count.
  const int64_t at_once = std::numeric_limits<int32_t>::max() / of_image;
  for (int64_t image = 0; image < images; image += at_once) {
    p.count = static_cast<uint32_t>(std::min(at_once, images - image) * of_image);
    p.indices = static_cast<const int64_t*>(call.indices.data) + image * p.outputs * channels;
    p.grad_output = grad_output + image * p.outputs * channels;
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
