// Launches the CUDA kernels of grid_sample. Each pair of types is instantiated in a file of its own, so that they
// compile in parallel.
#pragma once

#include "kernels/cuda/grid_pixels.cuh"
#include "kernels/cuda/launch.cuh"

namespace msda::kernels::cuda {

// With more samples to a batch the addends are sorted: searching all samples for the pixels that have many addends
// would take long.
inline constexpr int64_t kManyGridSamples = 16384;

inline unsigned grid_blocks(int64_t N, int64_t columns) {
  return static_cast<unsigned>(N * ((columns + kGridColumns - 1) / kGridColumns));
}
inline Division by_grid_blocks(int64_t columns) { return Division((columns + kGridColumns - 1) / kGridColumns); }

template <int kAxes, int kTaps, class Stored, class Real>
void grid_backward(const GridCall<Stored>& p, bool atomic, Result grad_input, Result grad_grid, cudaStream_t stream) {
  constexpr int64_t kCount = taps_of_sample(kAxes, kTaps);
  const bool wants_input = grad_input.data != nullptr && p.C * p.pixels > 0;
  const bool sorts = wants_input && !atomic && p.samples > kManyGridSamples;
  const int64_t all = p.N * p.samples * kCount;
  Grouping grouping(sorts ? all : 0, p.N * p.pixels);
  Workspace workspace(stream);
  GridAddends<Real> addends{};
  if (wants_input && !atomic) {
    workspace.want(addends.weights, all + 1);  // not null where there is no sample
    if (sorts) {
      grouping.want(workspace);
    } else {
      workspace.want(addends.heads, p.N * p.pixels);
      workspace.want(addends.next, all);
    }
  }
  workspace.take();
  if (sorts) addends.numbers = grouping.numbers(p.pixels);
  if (addends.heads != nullptr) {
    check(cudaMemsetAsync(addends.heads, 0xff, static_cast<size_t>(p.N * p.pixels) * sizeof(int32_t), stream),
          "cudaMemsetAsync");
  }
  Real* const sums = wants_input && atomic ? static_cast<Real*>(grad_input.data) : nullptr;
  if (sums != nullptr) {
    check(cudaMemsetAsync(sums, 0, static_cast<size_t>(p.N * p.C * p.pixels) * sizeof(Real), stream),
          "cudaMemsetAsync");
  }
  if (p.samples > 0) {
    const auto kernel = atomic ? grid_samples_kernel<kAxes, kTaps, true, Stored, Real>
                               : grid_samples_kernel<kAxes, kTaps, false, Stored, Real>;
    launch("grid_samples_kernel", kernel, grid_blocks(p.N, p.samples), kGridThreads, 0, stream, p,
           by_grid_blocks(p.samples), addends, sums, grad_grid);
  }
  if (!wants_input || atomic) return;
  const CellSamples sorted = sorts ? grouping.grouped(p.pixels, stream) : CellSamples{};
  launch("grid_pixels_kernel", grid_pixels_kernel<kAxes, kTaps, Stored, Real>, grid_blocks(p.N, p.pixels), kGridThreads,
         0, stream, p, by_grid_blocks(p.pixels), addends, sorted, grad_input);
}

template <class Stored, class Real>
void GridOperator<Stored, Real>::backward(const GridCall<Stored>& p, int axes, bool atomic, Result grad_input,
                                          Result grad_grid, cudaStream_t stream) {
  if (p.N == 0) return;
  const bool nearest = p.interpolation == MSDA_NEAREST;
  const auto run = axes == 2 ? (nearest ? grid_backward<2, 1, Stored, Real> : grid_backward<2, 2, Stored, Real>)
                             : (nearest ? grid_backward<3, 1, Stored, Real> : grid_backward<3, 2, Stored, Real>);
  run(p, atomic, grad_input, grad_grid, stream);
}

}  // namespace msda::kernels::cuda
