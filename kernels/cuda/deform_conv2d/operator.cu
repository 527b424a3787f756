// Samples of deform_conv2d: a block's threads take adjacent ones, and up to eight share the channels of one.
#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/deform_conv2d/operator.h"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256, kThreadsLog = 8, kMostSharers = 8;

template <class Stored, class Real>
struct DeformCall : DeformSizes {
  const Stored *input, *offset, *mask, *grad_columns;
  Stored *grad_offset, *grad_mask, *columns;
  Real *grid, *masked;
  Division blocks;  // of an image and group
};

// Returns the threads of a sample, as a power of two: as many as the channels need.
uint32_t sharers_log(int64_t channels) { return channels <= 4 ? 0 : channels <= 8 ? 1 : channels <= 16 ? 2 : 3; }

// Adds up what the threads of a sample have found. All threads must call it; those of the first sharer get the sum.
template <class Real>
__device__ inline Real sum_sharers(uint32_t sharers, Real mine) {
  __shared__ Real parts[kThreads];
  __syncthreads();
  parts[threadIdx.x] = mine;
  __syncthreads();
  const uint32_t columns = kThreads / sharers;
  Real of[kMostSharers];
#pragma unroll
  for (uint32_t i = 0; i < kMostSharers; ++i)
    of[i] = i < sharers ? parts[i * columns + threadIdx.x % columns] : Real(0);
  return sum_pairs<kMostSharers>(of);
}

template <class Stored, class Real>
__global__ void __launch_bounds__(kThreads)
    deform_samples_kernel(const __grid_constant__ DeformCall<Stored, Real> p, uint32_t log) {
  const uint32_t columns_log = kThreadsLog - log, sharer = threadIdx.x >> columns_log;
  const auto [task, block] = p.blocks.divide(blockIdx.x);  // an image and group
  const int64_t i = (int64_t{block} << columns_log) + (threadIdx.x & ((1u << columns_log) - 1));
  const bool exists = i < p.samples();
  const int64_t channels = p.channels(), number = int64_t{task} * p.samples() + i,
                pair = int64_t{task} * 2 * p.samples() + i / p.places() * 2 * p.places() + i % p.places();
  ChannelSums<4, Real> sums;
  Real mask(1);
  if (exists) {
    const DeformSample<Real> sample(p, i, static_cast<Real>(widened(p.offset[pair])),
                                    static_cast<Real>(widened(p.offset[pair + p.places()])));
    if (p.has_mask) mask = static_cast<Real>(widened(p.mask[number]));
    if (sharer == 0) {
      p.grid[2 * number] = sample.at[1];
      p.grid[2 * number + 1] = sample.at[0];
    }
    for (int64_t first = 4 * sharer; first < channels; first += kLanes) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t c = int64_t{task} * channels + first + j, at = c * p.samples() + i;
        if (first + j >= channels) break;
        const Real gradient = static_cast<Real>(widened(p.grad_columns[at]));
        Real values[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          values[k] =
              sample.corner[k] < 0 ? Real(0) : static_cast<Real>(widened(p.input[c * p.pixels() + sample.corner[k]]));
        }
        sums.add(j, gradient, sample.weights, sample.fraction[0], sample.fraction[1], values[0], values[1], values[2],
                 values[3]);
        p.columns[at] =
            narrowed<Stored>(mask * interpolate(sample.weights, values[0], values[1], values[2], values[3]));
        if (p.has_mask) p.masked[at] = mask * gradient;
      }
    }
  }
  const uint32_t sharers = 1u << log;
  const Real along_y = sum_sharers(sharers, sum_pairs<4>(sums.y)), along_x = sum_sharers(sharers, sum_pairs<4>(sums.x)),
             of_mask = sum_sharers(sharers, sum_pairs<4>(sums.attention));
  if (!exists || sharer != 0) return;
  p.grad_offset[pair] = narrowed<Stored>(along_y * mask);
  p.grad_offset[pair + p.places()] = narrowed<Stored>(along_x * mask);
  if (p.has_mask) p.grad_mask[number] = narrowed<Stored>(of_mask);
}

template <class Stored, class Real>
void run(const CheckedDeform& checked, const msda_deform_conv2d_call& call, const DeformResults& results, void* grid,
         void* masked, Work& work) {
  DeformCall<Stored, Real> p{};
  static_cast<DeformSizes&>(p) = checked;
  p.input = static_cast<const Stored*>(call.input.data);
  p.offset = static_cast<const Stored*>(call.offset.data);
  p.mask = static_cast<const Stored*>(call.mask.data);
  p.grad_columns = static_cast<const Stored*>(call.grad_columns.data);
  p.grad_offset = static_cast<Stored*>(results.grad_offset->data);
  p.columns = static_cast<Stored*>(results.columns->data);
  if (checked.has_mask) p.grad_mask = static_cast<Stored*>(results.grad_mask->data);
  p.grid = static_cast<Real*>(grid);
  p.masked = static_cast<Real*>(masked);
  const uint32_t log = sharers_log(checked.channels());
  const int64_t columns = kThreads >> log, blocks = (checked.samples() + columns - 1) / columns;
  p.blocks = Division(blocks);
  launch("deform_samples_kernel", deform_samples_kernel<Stored, Real>,
         static_cast<unsigned>(checked.N * checked.groups * blocks), kThreads, 0, work, p, log);
}

}  // namespace

void deform_samples(const CheckedDeform& checked, const msda_deform_conv2d_call& call, const DeformResults& results,
                    bool float64, void* grid, void* masked, Work& work) {
  const auto with = [&](auto run) { run(checked, call, results, grid, masked, work); };
  if (checked.dtype == MSDA_FLOAT64) return with(run<double, double>);
  if (checked.dtype == MSDA_FLOAT32) return float64 ? with(run<float, double>) : with(run<float, float>);
  if (checked.dtype == MSDA_FLOAT16) return float64 ? with(run<__half, double>) : with(run<__half, float>);
  float64 ? with(run<__nv_bfloat16, double>) : with(run<__nv_bfloat16, float>);
}

}  // namespace msda::kernels::cuda
