// The C ABI's functions for a GPU: they check the call and choose the types.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <limits>
#include <string>

#include "kernels/checked/call.h"
#include "kernels/cuda/common/call.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/msda/operator.h"
#include "kernels/cuda/msda/plan.h"
#include "kernels/cuda/msda/problem_of.h"
#include "kernels/cuda/msda/stages.h"
#include "kernels/cuda_version.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

// Refuses calls that the kernels' 32-bit numbers cannot count.
void check_sizes(const CheckedCall& checked) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kMostNumber = int64_t{1} << kNumberBits;
  int64_t cells = 0, points = 1;
  for (const cpu::Level& level : checked.levels) cells = std::max(cells, cpu::cells_of(level));
  while (points < checked.P) points *= 2;
  if (checked.Q > kMostNumber / points || cells > kMostNumber || checked.Q * checked.P >= int64_t{1} << kPlaceBits ||
      checked.D > kMost || (checked.Q > 0 && checked.P > kMost / std::max<int64_t>(checked.L, 1)) ||
      checked.B * checked.M > kMost / 2 / (checked.S + checked.L + 1) ||
      checked.M * checked.D > kMost / int64_t{sizeof(double)} || checked.M * checked.L * checked.P > kMost) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
}

// Calls visit(static_cast<Operator<Stored, Real>*>(nullptr), static_cast<Stored*>(nullptr)).
template <class Visit>
void visit_operator(msda_dtype dtype, bool float64, Visit&& visit) {
  if (dtype == MSDA_FLOAT64)
    return visit(static_cast<Operator<double, double>*>(nullptr), static_cast<double*>(nullptr));
  if (float64) return visit(static_cast<Operator<float, double>*>(nullptr), static_cast<float*>(nullptr));
  if (dtype == MSDA_FLOAT16)
    return visit(static_cast<Operator<__half, float>*>(nullptr), static_cast<__half*>(nullptr));
  if (dtype == MSDA_BFLOAT16) {
    return visit(static_cast<Operator<__nv_bfloat16, float>*>(nullptr), static_cast<__nv_bfloat16*>(nullptr));
  }
  visit(static_cast<Operator<float, float>*>(nullptr), static_cast<float*>(nullptr));
}

void forward(const msda_call* call, const msda_options* options, const msda_tensor* output, Work& work) {
  if (call == nullptr || output == nullptr) throw InvalidArgument("call or output is a null pointer");
  const CheckedCall checked = check_call(*call, nullptr);
  const msda_options chosen = checked_options(options);
  check_result("output", *output, checked.output_shape());
  if (chosen.mode == MSDA_MODE_MIXED) throw InvalidArgument("the mode mixed exists for the backward pass only");
  check_sizes(checked);
  need_device();
  if (elements_of(checked.output_shape()) == 0) return;
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call->value, &call->sampling_locations, &call->attention_weights},
                                        checked.float64_inputs, float64);
  Input value(call->value, dtype), locations(call->sampling_locations, dtype), weights(call->attention_weights, dtype);
  Output result(output, float64);
  Workspace workspace(work);
  for (Input* input : {&value, &locations, &weights}) input->want(workspace);
  result.want(workspace);
  workspace.take();
  for (Input* input : {&value, &locations, &weights}) input->make(work);
  visit_operator(dtype, float64, [&]<class Of, class Stored>(Of*, Stored*) {
    Of::forward(problem_of<Stored>(checked, value, locations, weights), checked.levels, result.result(), work);
  });
  result.store(work);
}

void backward(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
              const msda_tensor* grad_value, const msda_tensor* grad_locations, const msda_tensor* grad_weights,
              Work& work) {
  if (call == nullptr || grad_output == nullptr) throw InvalidArgument("call or grad_output is a null pointer");
  const CheckedCall checked = check_call(*call, grad_output);
  const msda_options chosen = checked_options(options);
  if (grad_value != nullptr) check_result("grad_value", *grad_value, checked.value_shape());
  if (grad_locations != nullptr) {
    check_result("grad_sampling_locations", *grad_locations, checked.locations_shape());
  }
  if (grad_weights != nullptr) check_result("grad_attention_weights", *grad_weights, checked.weights_shape());
  if (chosen.mode == MSDA_MODE_MIXED) {
    const msda_tensor* results[MSDA_STAGE_COUNT] = {};
    results[MSDA_STAGE_GRAD_VALUE] = grad_value;
    results[MSDA_STAGE_GRAD_SAMPLING_LOCATIONS] = grad_locations;
    results[MSDA_STAGE_GRAD_ATTENTION_WEIGHTS] = grad_weights;
    return stages(checked, *call, *grad_output, float64_stages_of(checked, chosen), results, work);
  }
  check_sizes(checked);
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype =
      common_dtype({&call->value, &call->sampling_locations, &call->attention_weights, grad_output},
                   checked.float64_inputs, float64);
  Input value(call->value, dtype), locations(call->sampling_locations, dtype), weights(call->attention_weights, dtype);
  Input output_gradient(*grad_output, dtype);
  Output to_value(grad_value, float64), to_locations(grad_locations, float64), to_weights(grad_weights, float64);
  Workspace workspace(work);
  for (Input* input : {&value, &locations, &weights, &output_gradient}) input->want(workspace);
  for (Output* output : {&to_value, &to_locations, &to_weights}) output->want(workspace);
  workspace.take();
  for (Input* input : {&value, &locations, &weights, &output_gradient}) input->make(work);
  visit_operator(dtype, float64, [&]<class Of, class Stored>(Of*, Stored*) {
    Problem<Stored> problem = problem_of<Stored>(checked, value, locations, weights);
    problem.grad_output = output_gradient.data<Stored>();
    Of::backward(problem, checked.levels, chosen.mode == MSDA_MODE_ATOMIC, to_value.result(), to_locations.result(),
                 to_weights.result(), work);
  });
  for (const Output* output : {&to_value, &to_locations, &to_weights}) output->store(work);
}

void backward_stages(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                     const msda_tensor* const results[MSDA_STAGE_COUNT], Work& work) {
  if (results == nullptr) throw InvalidArgument("results is a null pointer");
  if (call == nullptr || grad_output == nullptr) throw InvalidArgument("call or grad_output is a null pointer");
  const CheckedCall checked = check_call(*call, grad_output);
  const msda_options chosen = checked_options(options);
  check_stages(checked, chosen, results);
  stages(checked, *call, *grad_output, float64_stages_of(checked, chosen), results, work);
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the functions below are C

int32_t msda_cuda_device_count(void) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

const char* msda_cuda_version(void) {
  static const std::string version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  return version.c_str();
}

msda_status msda_cuda_forward(const msda_call* call, const msda_options* options, const msda_tensor* output,
                              void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) { cuda::forward(call, options, output, work); });
}

msda_status msda_cuda_backward(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                               const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,
                               const msda_tensor* grad_attention_weights, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    cuda::backward(call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights, work);
  });
}

msda_status msda_cuda_stages(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                             const msda_tensor* const results[MSDA_STAGE_COUNT], void* stream) {
  return cuda::enqueued(stream,
                        [&](cuda::Work& work) { cuda::backward_stages(call, grad_output, options, results, work); });
}
