// The CPU's inner loops behind a table of function pointers: the same source (cpu/loops.cpp) is compiled once for each
// instruction set, and the table is chosen when the program runs.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/msda.h"
#include "kernels/sample.h"

namespace msda::kernels::cpu {

struct Level {
  int32_t height, width;
  int64_t start;  // first pixel, in [0, S]
};

// A checked call: sizes, conventions, and contiguous tensors of one floating-point type.
template <class In>
struct Problem {
  int64_t B, S, M, D, L, Q, P;
  msda_dialect dialect;
  msda_padding padding;
  bool align_corners;
  const Level* levels;
  const In* value;
  const In* sampling_locations;
  const In* attention_weights;
  const In* grad_output;  // null in a forward pass
};

// One sample of a level, listed for the scatter sum.
template <class Real>
struct Sample {
  int64_t query;
  Real attention, fraction_y, fraction_x;
  int64_t cell;  // (row + 1) * (width + 1) + column + 1
};

// Memory for one scatter_level call, reused between calls of one thread.
template <class Real>
struct ScatterScratch {
  Sample<Real>* samples;  // Q * P
  Sample<Real>* sorted;   // Q * P
  int64_t* cell_begin;    // cells_of(level) + 1
  Real* sums;             // sum_size(Q * P, D)
};

MSDA_HOST_DEVICE static inline int64_t cells_of(const Level& level) {
  return (int64_t{level.height} + 1) * (int64_t{level.width} + 1);
}

// Returns the levels of the tree of runs (sample.h, kRun) over n addends.
static inline int tree_depth(int64_t n) {
  int depth = 1;
  for (int64_t capacity = 32; capacity < n; capacity *= 32) ++depth;
  return depth;
}
static inline int64_t sum_size(int64_t samples, int64_t D) { return (tree_depth(samples) + 1) * 4 * D; }

// In: the type of the inputs. Real: the type of the arithmetic and of the results, float only where In is float. Every
// NaN of the gradients has the same bits.
template <class In, class Real>
struct Loops {
  // Computes output[query][m][d] of batch b for queries [begin, end).
  void (*forward)(const Problem<In>&, int64_t b, int64_t begin, int64_t end, Real* output);
  // Computes grad_sampling_locations and grad_attention_weights (either may be null) of batch b for queries [begin,
  // end).
  void (*backward)(const Problem<In>&, int64_t b, int64_t begin, int64_t end, Real* grad_sampling_locations,
                   Real* grad_attention_weights);
  // Overwrites grad_value of one batch, head and level. With `atomic`, adds one addend at a time, in an order that
  // depends only on `seed`, b, m and l.
  void (*scatter_level)(const Problem<In>&, int64_t b, int64_t m, int64_t l, bool atomic, uint64_t seed,
                        const ScatterScratch<Real>&, Real* grad_value);
};

// A set of loops for each type of tensors and of arithmetic.
template <template <class In, class Real> class Set>
struct ByTypes {
  Set<float, float> f32;
  Set<float, double> f32_as_f64;
  Set<double, double> f64;
  template <class In, class Real>
  const Set<In, Real>& loops() const {
    if constexpr (std::is_same_v<Real, float>) {
      return f32;
    } else if constexpr (std::is_same_v<In, float>) {
      return f32_as_f64;
    } else {
      return f64;
    }
  }
};

struct Table : ByTypes<Loops> {
  const char* name;
};

// Returns the fastest table that this machine can run and that the environment variable MSDA_CPU_ISA allows.
const Table& table();

}  // namespace msda::kernels::cpu
