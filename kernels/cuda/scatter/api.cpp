// The C ABI of scatter_add for a GPU.
#include <cuda_runtime_api.h>

#include <limits>

#include "kernels/cuda/scatter/operator.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

// Refuses calls that the kernels' 32-bit numbers cannot count.
void check_scatter_sizes(const CheckedScatter& checked) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (checked.n > kMost || checked.rows > kMost) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
}

void add(const msda_scatter_add_call& call, const msda_options* options, const msda_tensor& sum, Work& work) {
  const msda_options chosen = plain_options("scatter_add", options);
  const CheckedScatter checked = check_scatter(call, sum);
  check_scatter_sizes(checked);
  need_device();
  if (checked.outer == 0 || checked.rows == 0 || checked.D == 0) return;
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call.source}, call.source.dtype == MSDA_FLOAT64, float64);
  Input source(call.source, dtype);
  Workspace workspace(work);
  source.want(workspace);
  workspace.take();
  source.make(work);
  scatter_add(checked, source, dtype, float64, sum, work);
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_scatter_add(const msda_scatter_add_call* call, const msda_options* options,
                                  const msda_tensor* sum, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || sum == nullptr) throw InvalidArgument("call or sum is a null pointer");
    cuda::add(*call, options, *sum, work);
  });
}
