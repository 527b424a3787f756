// Strided tensors of any floating-point type to contiguous ones of the arithmetic's type, and back.
#include "kernels/checked_call.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operator.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/strided.h"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <bool kContiguous, class Real>
__global__ void widen_kernel(msda_tensor from, Real* to, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t at = kContiguous ? i : offset_of(from, i);
    visit_elements(from.data, from.dtype, [&](auto* data) { to[i] = static_cast<Real>(widened(data[at])); });
  }
}

template <bool kContiguous, class Real>
__global__ void spread_kernel(const Real* from, msda_tensor to, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    store_one(to.data, to.dtype, kContiguous ? i : offset_of(to, i), from[i]);
  }
}

int64_t count_of(const msda_tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}
}  // namespace

template <class Real>
void make_contiguous(const msda_tensor& from, Real* to, cudaStream_t stream) {
  const int64_t count = count_of(from);
  if (count == 0) return;
  const auto kernel = is_contiguous(from) ? widen_kernel<true, Real> : widen_kernel<false, Real>;
  launch("widen_kernel", kernel, blocks_for(count, kThreads), kThreads, 0, stream, from, to, count);
}

template <class Real>
void spread(const Real* from, const msda_tensor& to, cudaStream_t stream) {
  const int64_t count = count_of(to);
  if (count == 0) return;
  const auto kernel = is_contiguous(to) ? spread_kernel<true, Real> : spread_kernel<false, Real>;
  launch("spread_kernel", kernel, blocks_for(count, kThreads), kThreads, 0, stream, from, to, count);
}

template void make_contiguous(const msda_tensor&, float*, cudaStream_t);
template void make_contiguous(const msda_tensor&, double*, cudaStream_t);
template void spread(const float*, const msda_tensor&, cudaStream_t);
template void spread(const double*, const msda_tensor&, cudaStream_t);

}  // namespace msda::kernels::cuda
