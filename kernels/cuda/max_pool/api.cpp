// The C ABI of max pooling for a GPU.
#include <fmt/format.h>

#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/max_pool/operator.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

void check_side(const msda_pool_side& side) {
  const bool is_sane =
      side.pixels >= 0 && side.outputs >= 0 && side.step >= 0 && side.per >= 1 && side.before >= 0 && side.span >= 1;
  if (!is_sane) throw InvalidArgument("a side has negative sizes, or a step per 0 outputs, or an empty window");
  // The kernels' numbers: (pixel + before + 1) * per + step.
  const bool fits = side.pixels <= kLargest && side.outputs <= kLargest && side.step <= kLargest / 2 &&
                    side.before <= kLargest / 4 && side.span <= kLargest &&
                    side.per <= kLargest / 2 / (side.pixels + side.before + 1);
  if (!fits) throw Unavailable("the image is larger than the GPU's kernels can count; scatter_add is the same sum");
}

// Returns the product of two sizes that are at most kLargest, or throws.
int64_t product(int64_t a, int64_t b) {
  if (b > 0 && a > kLargest / b) throw Unavailable("the image is larger than the GPU's kernels can count");
  return a * b;
}

void check_max_pool(const msda_max_pool_call& call, const msda_tensor& grad_input) {
  int64_t pixels = 1, outputs = 1;
  for (const msda_pool_side& side : call.side) {
    check_side(side);
    pixels = product(pixels, side.pixels);
    outputs = product(outputs, side.outputs);
  }
  check_rank_and_sizes("grad_output", call.grad_output, 3);
  check_float("grad_output", call.grad_output);
  const int64_t planes = call.grad_output.shape[0], channels = call.grad_output.shape[2];
  check_exact_shape("grad_output", call.grad_output, {planes, outputs, channels});
  check_exact_shape("indices", call.indices, {planes, outputs, channels});
  if (call.indices.dtype != MSDA_INT64 || !is_contiguous(call.indices)) {
    throw InvalidArgument("indices are not of type int64, or not contiguous");
  }
  check_result("grad_input", grad_input, {planes, pixels, channels});
  product(pixels, channels);
}

void enqueue_max_pool(const msda_max_pool_call& call, const msda_options* options, const msda_tensor& grad_input,
                      Work& work) {
  const msda_options chosen = plain_options("max_pool", options);
  check_max_pool(call, grad_input);
  need_device();
  if (elements_of(sizes_of(grad_input)) == 0) return;
  const bool float64_inputs = call.grad_output.dtype == MSDA_FLOAT64;
  const bool float64 = float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call.grad_output}, float64_inputs, float64);
  Input grad_output(call.grad_output, dtype);
  with_memory({&grad_output}, Output(&grad_input, float64), work,
              [&](Result result) { max_pool_backward(call, grad_output, dtype, float64, result, work); });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_max_pool_backward(const msda_max_pool_call* call, const msda_options* options,
                                        const msda_tensor* grad_input, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    cuda::enqueue_max_pool(*call, options, *grad_input, work);
  });
}
