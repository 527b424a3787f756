#include "kernels/cuda/msda/stages.h"

#include <limits>

#include "kernels/cuda/common/call.h"
#include "kernels/cuda/msda/problem_of.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

template <class In>
void stages_in(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output,
               uint32_t float64_stages, const msda_tensor* const results[MSDA_STAGE_COUNT], Work& work) {
  const msda_dtype dtype = dtype_of<In>();
  Input value(call.value, dtype), locations(call.sampling_locations, dtype), weights(call.attention_weights, dtype);
  Input output_gradient(grad_output, dtype);
  std::vector<Output> outputs;
  for (int i = 0; i < MSDA_STAGE_COUNT; ++i) outputs.emplace_back(results[i], true);
  Workspace workspace(work);
  for (Input* input : {&value, &locations, &weights, &output_gradient}) input->want(workspace);
  for (Output& output : outputs) output.want(workspace);
  workspace.take();
  for (Input* input : {&value, &locations, &weights, &output_gradient}) input->make(work);
  Problem<In> problem = problem_of<In>(checked, value, locations, weights);
  problem.grad_output = output_gradient.data<In>();
  StageResults to;
  for (int i = 0; i < MSDA_STAGE_COUNT; ++i) to.of[i] = outputs[static_cast<size_t>(i)].result();
  trace(problem, checked.levels, float64_stages, to, work);
  for (const Output& output : outputs) output.store(work);
}

}  // namespace

void stages(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output, uint32_t float64_stages,
            const msda_tensor* const results[MSDA_STAGE_COUNT], Work& work) {
  if (checked.Q * checked.P > std::numeric_limits<uint32_t>::max()) {  // the kernels number samples with 32 bits
    throw Unavailable("the call has more samples than the GPU's kernels can count; the CPU's can");
  }
  need_device();
  if (checked.float64_inputs) return stages_in<double>(checked, call, grad_output, float64_stages, results, work);
  stages_in<float>(checked, call, grad_output, float64_stages, results, work);
}

}  // namespace msda::kernels::cuda
