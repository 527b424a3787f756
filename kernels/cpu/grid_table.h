// The CPU's inner loops of grid_sample behind a table of function pointers, as those of table.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/grid_sample.h"

namespace msda::kernels::cpu {

// What of a call decides where samples land.
struct GridConventions {
  msda_interpolation interpolation;
  msda_grid_padding padding;
  bool align_corners;
};

// A checked call: contiguous tensors of one floating-point type, channels last.
template <class In>
struct GridProblem : GridConventions {
  int64_t N, C;
  int64_t pixels, samples;  // of one batch
  int axes;                 // 2 or 3
  int32_t sides[3];         // of the image: width, height, depth
  const In* input;          // [N, pixels, C]
  const In* grid;           // [N, samples, axes]
  const In* grad_output;    // [N, samples, C]
};

// One addend of grad_input, for all channels: weight * grad_output of the sample.
template <class Real>
struct GridAddend {
  int64_t sample;
  Real weight;
};

// In: the type of the inputs. Real: the type of the arithmetic and of the results, float only where In is float.
template <class In, class Real>
struct GridLoops {
  // Computes grad_grid of batch n for samples [begin, end).
  void (*grad_grid)(const GridProblem<In>&, int64_t n, int64_t begin, int64_t end, Real* grad_grid);
  // Finds the addends of a sample of batch n: at most kMostTapsOfSample, in the order of the taps, each with its pixel
  // in the image. Returns how many.
  int (*addends)(const GridProblem<In>&, int64_t n, int64_t sample, int64_t* pixels, Real* weights);
  // Overwrites grad_input of one pixel, all channels, with the sum by the tree of runs, or in turn if `in_turn`.
  // `memory`: (tree_depth(count) + 1) * C numbers.
  void (*sum)(const GridProblem<In>&, int64_t n, const GridAddend<Real>* addends, int64_t count, bool in_turn,
              Real* memory, Real* grad_input);
};

using GridTable = ByTypes<GridLoops>;

// Pixels that a sample reads at most.
inline constexpr int kMostTapsOfSample = 16;

// Returns the fastest table that this machine can run, chosen as table() is.
const GridTable& grid_table();

}  // namespace msda::kernels::cpu
