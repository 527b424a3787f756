// Gradients as a call's operator defines them, element by element: replays of operators that have no kernels of their
// own. docs/determinism.md says in which order deterministic sums are added.
#pragma once

#include <cstdint>

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

// Calls put(flat, value) for every element, from several threads. `threads` as in msda_options.
using PutElement = std::function<void(int64_t flat, double value)>;
void evaluate(const Call& call, Gradient gradient, EvaluationMode mode, uint64_t seed, int threads,
              const PutElement& put);

}  // namespace msda::analysis
