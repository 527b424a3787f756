// grad_input of a separable map on a GPU: each input gathers the outputs that read it, so nothing has to be added
// atomically, or cleared. A thread computes from the sizes which outputs these are, once for all planes that it sums.
#pragma once

#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/several.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
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
  int64_t inputs, outputs;          // elements of an outer
  int64_t lanes;                    // outers that threads begin with; each goes on with every lanes-th
  int64_t input_step, output_step;  // elements from one of these to the next
  uint32_t threads;
  Division groups, sides[3];  // vectors of inner elements; x, y, z
  SeparableAxis<Real, Quotient> axes[3];
};

// Where a thread's elements lie in every outer, and which outputs read them.
struct SeparablePlace {
  SeparableReaders readers[3];
  int64_t first;          // outer
  int64_t input, output;  // elements of an outer before those; the output's channel
};

template <class Stored, class Real>
__device__ inline SeparablePlace place_of(const SeparableCall<Stored, Real>& p, uint32_t thread, int vector) {
  const Division::Result group = p.groups.divide(thread);
  SeparablePlace found;
  uint32_t rest = group.quotient;
  int64_t stride = p.inner;
  found.output = found.input = int64_t{group.rest} * vector;
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const Division::Result side = p.sides[axis].divide(rest);
    found.readers[axis] = p.axes[axis].readers(static_cast<int32_t>(side.rest));
    found.input += side.rest * stride;
    stride *= p.axes[axis].in;
    rest = side.quotient;
  }
  found.first = rest;
  return found;
}

// gather_run(), but from +0 on: the code within, which is a loop again, is there once, and takes fewer registers. It
// differs in the sign of a zero alone, and the element's sum is added to +0.
template <class Sum, class Weight, class Value>
__device__ inline Sum gather_from_zero(int32_t count, Weight&& weight, Value&& value) {
  Sum run{};
#pragma unroll 1
  for (int32_t i = 0; i < count; ++i) run = fma(weight(i), value(i), run);
  return run;
}

// The sums over a row of outputs, from weights along x, of kVector elements side by side in `count` outers.
template <int kVector, int kOuters, class Stored, class Real>
__device__ inline auto sum_row(const SeparableCall<Stored, Real>& p, const SeparableReaders& readers, const Stored* row,
                               int count) {
  using Sum = Several<Real, kVector * kOuters>;
  const auto weight = [&](int32_t i) { return p.axes[0].weight(readers.output(i)); };
  return gather_from_zero<Sum>(readers.count, weight, [&](int32_t i) {
    const Stored* const at = row + readers.output(i) * p.inner;
    Sum read{};
#pragma unroll
    for (int s = 0; s < kOuters; ++s) {
      if (s >= count) continue;
      if constexpr (kVector == 1) {
        read.at[s] = static_cast<Real>(widened(at[s * p.output_step]));
      } else {
        Real four[4];
        load_four<true>(at + s * p.output_step, 4, four);
#pragma unroll
        for (int c = 0; c < 4; ++c) read.at[4 * s + c] = four[c];
      }
    }
    return read;
  });
}

// The same over all outputs that read a place; sum_row(j, row) is called with the rows' numbers, and where they begin.
template <class Sum, class Stored, class Real, class Row>
__device__ inline Sum sum_rows(const SeparableCall<Stored, Real>& p, const SeparablePlace& place, const Stored* from,
                               Row&& sum_row) {
  const auto weight_along = [&](int axis) {
    return [&, axis](int32_t i) { return p.axes[axis].weight(place.readers[axis].output(i)); };
  };
  return gather_from_zero<Sum>(place.readers[2].count, weight_along(2), [&](int32_t k) {
    const int64_t slice = int64_t{place.readers[2].output(k)} * p.axes[1].out;
    return gather_from_zero<Sum>(place.readers[1].count, weight_along(1), [&](int32_t j) {
      return sum_row(j, from + (slice + place.readers[1].output(j)) * p.axes[0].out * p.inner);
    });
  });
}

// Calls use(from, count, first) for the outers of a place, kOuters at a time: the outputs of the first, how many, and
// its number.
template <int kOuters, class Stored, class Real, class Use>
__device__ inline void for_outers(const SeparableCall<Stored, Real>& p, const SeparablePlace& place, Use&& use) {
  for (int64_t first = place.first; first < p.outers; first += p.lanes * kOuters) {
    const int64_t left = (p.outers - first - 1) / p.lanes + 1;
    use(p.grad_output + first * p.outputs + place.output, static_cast<int>(min(left, int64_t{kOuters})), first);
  }
}

template <int kVector, int kOuters, class Stored, class Real>
__device__ inline void store_sums(const SeparableCall<Stored, Real>& p, int64_t index, int count,
                                  const Several<Real, kVector * kOuters>& sums) {
  visit_elements(p.grad_input.data, p.grad_input.dtype, [&]<class To>(To* to) {
    to += index;
#pragma unroll
    for (int s = 0; s < kOuters; ++s) {
      if (s >= count) break;
      if constexpr (kVector == 1) {
        to[s * p.input_step] = narrowed<To>(Real(0) + sums.at[s]);
      } else {
        Real four[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) four[c] = Real(0) + sums.at[4 * s + c];
        store_four_as<true>(to + s * p.input_step, 4, four);
      }
    }
  });
}

// Where a corner of a padded image is read by many outputs, the threads of a warp sum up a row each, and then each of
// them all rows.
template <int kVector, int kOuters, class Stored, class Real>
__device__ inline void sum_together(const SeparableCall<Stored, Real>& p, uint32_t thread) {
  using Sum = Several<Real, kVector * kOuters>;
  const SeparablePlace place = place_of(p, thread, kVector);
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int64_t width = p.axes[0].out * p.inner;
  for_outers<kOuters>(p, place, [&](const Stored* from, int count, int64_t first) {
    Sum mine{};
    const Sum sums = sum_rows<Sum>(p, place, from, [&](int32_t j, const Stored* row) {
      if (j == 0 && lane < place.readers[1].count) {
        const int32_t begin = place.readers[1].output(0);
        mine = sum_row<kVector, kOuters>(p, place.readers[0], row + (place.readers[1].output(lane) - begin) * width,
                                         count);
      }
      Sum of_row;
#pragma unroll
      for (int n = 0; n < kVector * kOuters; ++n) of_row.at[n] = __shfl_sync(~0u, mine.at[n], j);
      return of_row;
    });
    if (lane == 0) store_sums<kVector, kOuters>(p, first * p.inputs + place.input, count, sums);
  });
}

// The outputs that may read a place before it is left to separable_corners_kernel.
inline constexpr int64_t kMostAlone = 64;

__device__ inline bool has_many(const SeparablePlace& place) {
  return int64_t{place.readers[0].count} * place.readers[1].count * place.readers[2].count > kMostAlone;
}

// For readers that are at most a run along each side. A thread sums up kVector elements side by side in kOuters outers
// at a time. Threads side by side are elements side by side.
template <class Stored, class Real, int kVector, int kOuters>
__global__ void __launch_bounds__(kSeparableThreads)
    separable_kernel(const __grid_constant__ SeparableCall<Stored, Real> p) {
  const uint32_t thread = blockIdx.x * kSeparableThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const SeparablePlace place = place_of(p, thread, kVector);
  if (has_many(place)) return;
  for_outers<kOuters>(p, place, [&](const Stored* from, int count, int64_t first) {
    const auto sums = sum_rows<Several<Real, kVector * kOuters>>(p, place, from, [&](int32_t, const Stored* row) {
      return sum_row<kVector, kOuters>(p, place.readers[0], row, count);
    });
    store_sums<kVector, kOuters>(p, first * p.inputs + place.input, count, sums);
  });
}

// For the places that separable_kernel leaves out.
template <class Stored, class Real, int kVector, int kOuters>
__global__ void __launch_bounds__(kSeparableThreads)
    separable_corners_kernel(const __grid_constant__ SeparableCall<Stored, Real> p) {
  const uint32_t thread = blockIdx.x * kSeparableThreads + threadIdx.x;
  const bool is_one = thread < p.threads && has_many(place_of(p, thread, kVector));
  for (unsigned left = __ballot_sync(~0u, is_one); left != 0; left &= left - 1) {
    sum_together<kVector, kOuters>(p, thread - threadIdx.x % kWarp + __ffs(static_cast<int>(left)) - 1);
  }
}

// For any number of readers. A thread sums up one element at a time.
template <class Stored, class Real>
__global__ void __launch_bounds__(kSeparableThreads)
    separable_crowds_kernel(const __grid_constant__ SeparableCall<Stored, Real> p) {
  const uint32_t thread = blockIdx.x * kSeparableThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const SeparablePlace place = place_of(p, thread, 1);
  for (int64_t outer = place.first; outer < p.outers; outer += p.lanes) {
    const Stored* const from = p.grad_output + outer * p.outputs + place.output;
    GatherSum<Real> slices;
    for (int32_t k = 0; k < place.readers[2].count; ++k) {
      GatherSum<Real> rows;
      const int32_t z = place.readers[2].output(k);
      for (int32_t j = 0; j < place.readers[1].count; ++j) {
        GatherSum<Real> row;
        const int32_t y = place.readers[1].output(j);
        for (int32_t i = 0; i < place.readers[0].count; ++i) {
          const int32_t x = place.readers[0].output(i);
          const int64_t at = ((int64_t{z} * p.axes[1].out + y) * p.axes[0].out + x) * p.inner;
          row.add(p.axes[0].weight(x), static_cast<Real>(widened(from[at])));
        }
        rows.add(p.axes[1].weight(y), row.sum());
      }
      slices.add(p.axes[2].weight(z), rows.sum());
    }
    store_one(p.grad_input.data, p.grad_input.dtype, outer * p.inputs + place.input, Real(0) + slices.sum());
  }
}

}  // namespace msda::kernels::cuda
