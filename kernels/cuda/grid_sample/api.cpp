// The C ABI of grid_sample for a GPU: checks the call and chooses the types.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <limits>

#include "kernels/checked/grid_call.h"
#include "kernels/cuda/common/call.h"
#include "kernels/cuda/grid_sample/problem.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

// Refuses what the kernels do not compute, and calls that their 32-bit numbers cannot count.
void check_grid_on_gpu(const CheckedGridCall& checked, const msda_options& options) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (checked.interpolation == MSDA_BICUBIC) {
    throw Unavailable("the GPU's kernels have no bicubic interpolation; the CPU's have");
  }
  if (options.mode == MSDA_MODE_MIXED) {
    throw Unavailable("the GPU's kernels of grid_sample have no mode mixed; the CPU's have");
  }
  const int64_t taps = checked.axes == 2 ? 4 : 8;
  const auto blocks_fit = [&](int64_t columns) { return checked.N == 0 || columns / 32 + 1 <= kMost / checked.N; };
  if (checked.samples > kMost / taps || checked.N > kMost || checked.pixels > kMost || !blocks_fit(checked.samples) ||
      !blocks_fit(checked.pixels)) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
}

// Calls visit(static_cast<GridOperator<Stored, Real>*>(nullptr), static_cast<Stored*>(nullptr)).
template <class Visit>
void visit_grid_operator(msda_dtype dtype, bool float64, Visit&& visit) {
  const auto with = [&]<class Stored, class Real>(Stored* stored, Real*) {
    visit(static_cast<GridOperator<Stored, Real>*>(nullptr), stored);
  };
  float* const single = nullptr;
  double* const wide = nullptr;
  if (dtype == MSDA_FLOAT64) return with(wide, wide);
  if (float64) return with(single, wide);
  if (dtype == MSDA_FLOAT16) return with(static_cast<__half*>(nullptr), single);
  if (dtype == MSDA_BFLOAT16) return with(static_cast<__nv_bfloat16*>(nullptr), single);
  with(single, single);
}

template <class Stored>
GridCall<Stored> call_of(const CheckedGridCall& checked, const Input& input, const Input& grid,
                         const Input& grad_output) {
  GridCall<Stored> p{};
  static_cast<cpu::GridConventions&>(p) = checked;
  p.N = checked.N;
  p.C = checked.C;
  p.pixels = checked.pixels;
  p.samples = checked.samples;
  std::copy_n(checked.sides, 3, p.sides);
  p.input = input.data<Stored>();
  p.grid = grid.data<Stored>();
  p.grad_output = grad_output.data<Stored>();
  return p;
}

void grid_backward(const msda_grid_sample_call& call, const msda_tensor& grad_output, const msda_options* options,
                   const msda_tensor* grad_input, const msda_tensor* grad_grid, Work& work) {
  const msda_options chosen = checked_options(options, MSDA_GRID_STAGE_COUNT);
  const CheckedGridCall checked = check_grid_call(call, grad_output);
  if (grad_input != nullptr) check_result("grad_input", *grad_input, shape_of(call.input));
  if (grad_grid != nullptr) check_result("grad_grid", *grad_grid, shape_of(call.grid));
  check_grid_on_gpu(checked, chosen);
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const bool atomic = chosen.mode == MSDA_MODE_ATOMIC;
  const msda_dtype dtype = common_dtype({&call.input, &call.grid, &grad_output}, checked.float64_inputs, float64);
  Input input(call.input, dtype), grid(call.grid, dtype), of_output(grad_output, dtype);
  // Atomic additions need the arithmetic's type.
  const bool in_place =
      !atomic || (grad_input != nullptr && grad_input->dtype == (checked.float64_inputs ? MSDA_FLOAT64 : MSDA_FLOAT32));
  Output to_input(grad_input, float64, in_place), to_grid(grad_grid, float64);
  Workspace workspace(work);
  for (Input* tensor : {&input, &grid, &of_output}) tensor->want(workspace);
  for (Output* tensor : {&to_input, &to_grid}) tensor->want(workspace);
  workspace.take();
  for (Input* tensor : {&input, &grid, &of_output}) tensor->make(work);
  visit_grid_operator(dtype, float64, [&]<class Of, class Stored>(Of*, Stored*) {
    Of::backward(call_of<Stored>(checked, input, grid, of_output), checked.axes, atomic, to_input.result(),
                 to_grid.result(), work);
  });
  for (const Output* tensor : {&to_input, &to_grid}) tensor->store(work);
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_grid_sample_backward(const msda_grid_sample_call* call, const msda_tensor* grad_output,
                                           const msda_options* options, const msda_tensor* grad_input,
                                           const msda_tensor* grad_grid, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr) throw InvalidArgument("call is a null pointer");
    if (grad_output == nullptr) throw InvalidArgument("grad_output is a null pointer");
    cuda::grid_backward(*call, *grad_output, options, grad_input, grad_grid, work);
  });
}
