// Strided tensors of any floating-point type to contiguous ones of the arithmetic's type, and back.
#include <limits>

#include "kernels/checked/call.h"
#include "kernels/cuda/common/convert.h"
#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/strided.h"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Where element number i of a tensor is, for fewer than 2^31 elements. Dimensions whose elements follow one another in
// memory are merged, and divisions are multiplications: dividing 64-bit numbers takes several times as long as the
// copy.
struct Strides {
  int last = 0;
  Division by[MSDA_MAX_RANK];  // from the innermost dimension on, but for the last
  int64_t stride[MSDA_MAX_RANK] = {};

  explicit Strides(const msda_tensor& tensor) {
    int64_t size = 1;
    for (int i = tensor.rank - 1; i >= 0; --i) {
      if (tensor.shape[i] == 1) continue;
      if (size > 1 && tensor.stride[i] != size * stride[last]) {
        by[last++] = Division(size);
        size = 1;
      }
      if (size == 1) stride[last] = tensor.stride[i];
      size *= tensor.shape[i];
    }
  }
  __device__ int64_t offset(int64_t i) const {
    auto n = static_cast<uint32_t>(i);
    int64_t offset = 0;
#pragma unroll
    for (int d = 0; d < MSDA_MAX_RANK - 1; ++d) {
      if (d == last) break;
      const Division::Result divided = by[d].divide(n);
      offset += divided.rest * stride[d];
      n = divided.quotient;
    }
    return offset + n * stride[last];
  }
};

// Where element number i is, for any number of elements.
struct ManyElements {
  msda_tensor tensor;
  __device__ int64_t offset(int64_t i) const { return offset_of(tensor, i); }
};

template <class Real, class Places>
__global__ void widen_kernel(msda_tensor from, Places places, Real* to, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int64_t at = places.offset(i);
    if constexpr (sizeof(Real) == sizeof(uint16_t)) {
      to[i] = static_cast<const Real*>(from.data)[at];
    } else {
      visit_elements(from.data, from.dtype, [&](auto* data) { to[i] = static_cast<Real>(widened(data[at])); });
    }
  }
}

template <class Real, class Places>
__global__ void spread_kernel(const Real* from, msda_tensor to, Places places, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    store_one(to.data, to.dtype, places.offset(i), from[i]);
  }
}

// Calls use(places, count) for a tensor that has elements.
template <class Use>
void with_places(const msda_tensor& tensor, Use&& use) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  if (count == 0) return;
  if (count <= std::numeric_limits<int32_t>::max()) return use(Strides(tensor), count);
  use(ManyElements{tensor}, count);
}

}  // namespace

template <class Real>
void make_contiguous(const msda_tensor& from, Real* to, Work& work) {
  with_places(from, [&]<class Places>(const Places& places, int64_t count) {
    launch("widen_kernel", widen_kernel<Real, Places>, blocks_for(count, kThreads), kThreads, 0, work, from, places, to,
           count);
  });
}

template <class Real>
void spread(const Real* from, const msda_tensor& to, Work& work) {
  with_places(to, [&]<class Places>(const Places& places, int64_t count) {
    launch("spread_kernel", spread_kernel<Real, Places>, blocks_for(count, kThreads), kThreads, 0, work, from, to,
           places, count);
  });
}

template void make_contiguous(const msda_tensor&, uint16_t*, Work&);
template void make_contiguous(const msda_tensor&, float*, Work&);
template void make_contiguous(const msda_tensor&, double*, Work&);
template void spread(const float*, const msda_tensor&, Work&);
template void spread(const double*, const msda_tensor&, Work&);

}  // namespace msda::kernels::cuda
