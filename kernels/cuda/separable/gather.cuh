// grad_input of a separable map on a GPU: each input gathers the outputs that read it, so nothing has to be added
// atomically, or cleared. A thread computes from the sizes which outputs these are, once for all planes that it sums.
#pragma once

#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/several.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/gather_sum.h"
#include "kernels/separable_axis.h"

namespace msda::kernels::cuda {

inline constexpr int kSeparableThreads = 256;

class Quotient {
 public:
  Quotient() = default;
  explicit Quotient(int64_t by) : division_(by) {}
  MSDA_HOST_DEVICE int32_t operator()(int64_t n) const {
    if (n < int64_t{1} << 31) return static_cast<int32_t>(division_.divide(static_cast<uint32_t>(n)).quotient);
    return static_cast<int32_t>(n / division_.by);
  }

 private:
  Division division_;
};

template <class Stored, class Real>
struct SeparableCall {
  const Stored* grad_output;
  Result grad_input;
  int64_t outers, inner;
  int64_t inputs, outputs;  // elements of an outer
  int64_t lanes;            // outers that threads begin with; each goes on with every lanes-th
  uint32_t threads;
  Division groups, sides[3];  // vectors of inner elements; x, y, z
  SeparableAxis<Real, Quotient> axes[3];
};

// The sum of kVector elements of kOuters outers at one place, whose readers are at most a run along each side.
template <int kVector, int kOuters, class Stored, class Real>
__device__ inline Several<Real, kVector * kOuters> sum_run(const SeparableCall<Stored, Real>& p,
                                                           const SeparableReaders (&readers)[3],
                                                           const Stored* const (&outers)[kOuters]) {
  if (readers[0].count == 0 || readers[1].count == 0 || readers[2].count == 0) return {};
  const auto weight_along = [&](int axis) {
    return [&, axis](int32_t i) { return p.axes[axis].weight(readers[axis].output(i)); };
  };
  return gather_run(readers[2].count, weight_along(2), [&](int32_t k) {
    const int64_t slice = int64_t{readers[2].output(k)} * p.axes[1].out;
    return gather_run(readers[1].count, weight_along(1), [&](int32_t j) {
      const int64_t row = (slice + readers[1].output(j)) * p.axes[0].out;
      return gather_run(readers[0].count, weight_along(0), [&](int32_t i) {
        const int64_t at = (row + readers[0].output(i)) * p.inner;
        Several<Real, kVector * kOuters> read;
#pragma unroll
        for (int s = 0; s < kOuters; ++s) {
          if constexpr (kVector == 1) {
            read.at[s] = static_cast<Real>(widened(outers[s][at]));
          } else {
            Real four[4];
            load_four<true>(outers[s] + at, 4, four);
#pragma unroll
            for (int c = 0; c < 4; ++c) read.at[4 * s + c] = four[c];
          }
        }
        return read;
      });
    });
  });
}

// The sum of one element with any number of readers.
template <class Stored, class Real>
__device__ inline Real sum_any(const SeparableCall<Stored, Real>& p, const SeparableReaders (&readers)[3],
                               const Stored* from) {
  GatherSum<Real> slices;
  for (int32_t k = 0; k < readers[2].count; ++k) {
    GatherSum<Real> rows;
    const int32_t z = readers[2].output(k);
    for (int32_t j = 0; j < readers[1].count; ++j) {
      GatherSum<Real> row;
      const int32_t y = readers[1].output(j);
      for (int32_t i = 0; i < readers[0].count; ++i) {
        const int32_t x = readers[0].output(i);
        const int64_t at = ((int64_t{z} * p.axes[1].out + y) * p.axes[0].out + x) * p.inner;
        row.add(p.axes[0].weight(x), static_cast<Real>(widened(from[at])));
      }
      rows.add(p.axes[1].weight(y), row.sum());
    }
    slices.add(p.axes[2].weight(z), rows.sum());
  }
  return slices.sum();
}

// A thread for kVector inner elements of each place of some outers. Threads side by side are elements side by side.
template <class Stored, class Real, int kVector, int kOuters>
__global__ void __launch_bounds__(kSeparableThreads)
    separable_kernel(const __grid_constant__ SeparableCall<Stored, Real> p) {
  const uint32_t thread = blockIdx.x * kSeparableThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const Division::Result group = p.groups.divide(thread);
  uint32_t rest = group.quotient;
  int64_t place = 0, stride = p.inner;
  SeparableReaders readers[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const Division::Result side = p.sides[axis].divide(rest);
    readers[axis] = p.axes[axis].readers(static_cast<int32_t>(side.rest));
    place += side.rest * stride;
    stride *= p.axes[axis].in;
    rest = side.quotient;
  }
  const bool is_run = readers[0].count <= kRun && readers[1].count <= kRun && readers[2].count <= kRun;
  const int64_t channel = int64_t{group.rest} * kVector;
  for (int64_t first = rest; first < p.outers; first += p.lanes * kOuters) {
    const Stored* outers[kOuters];
#pragma unroll
    for (int s = 0; s < kOuters; ++s) {
      outers[s] = p.grad_output + min(first + s * p.lanes, p.outers - 1) * p.outputs + channel;
    }
    Several<Real, kVector * kOuters> sums;
    if (is_run) {
      sums = sum_run<kVector>(p, readers, outers);
    } else {
      for (int n = 0; n < kVector * kOuters; ++n) sums.at[n] = sum_any(p, readers, outers[n / kVector] + n % kVector);
    }
    visit_elements(p.grad_input.data, p.grad_input.dtype, [&]<class To>(To* to) {
#pragma unroll
      for (int s = 0; s < kOuters; ++s) {
        if (first + s * p.lanes >= p.outers) break;
        To* const at = to + (first + s * p.lanes) * p.inputs + place + channel;
        if constexpr (kVector == 1) {
          *at = narrowed<To>(Real(0) + sums.at[s]);
        } else {
          Real four[4];
#pragma unroll
          for (int c = 0; c < 4; ++c) four[c] = Real(0) + sums.at[4 * s + c];
          store_four_as<true>(at, 4, four);
        }
      }
    });
  }
}

}  // namespace msda::kernels::cuda
