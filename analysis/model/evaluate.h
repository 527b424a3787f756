// Gradients as a call's operator defines them, element by element: replays of operators that have no kernels of their
// own. docs/determinism.md says in which order deterministic sums are added.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/model/call.h"

namespace msda::analysis {

enum class EvaluationMode {
  kFloat64,        // exact but for float64's rounding
  kDeterministic,  // the call's own arithmetic, the addends of an element summed as a tree in one order
  kAtomic          // the same, added one after the other in an order drawn from the seed
};

// Returns the element in exact arithmetic, its sample where exact arithmetic lands it.
double float64_value(const Call& call, const ElementId& id, Cache& cache);

// Returns what the addends give in a type: halves, quarters, ... each summed and rounded.
double tree_sum_of(const Addends& addends, msda_dtype type);

// Returns the seed of the order in which mode atomic adds up an element.
inline uint64_t seed_of_order(uint64_t seed, int64_t flat) {
  return seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(flat);
}

// Calls put(flat, value) for every element, from several threads. `threads` as in msda_options.
using PutElement = std::function<void(int64_t flat, double value)>;
void evaluate(const Call& call, Gradient gradient, EvaluationMode mode, uint64_t seed, int threads,
              const PutElement& put);

// Computes all gradients into `results`, by place: by the operator's kernels, or else by evaluate(). Throws as
// Kernels::run_kernels().
void compute_gradients(const Call& call, const msda_options& options, std::span<const Tensor> results);

}  // namespace msda::analysis
