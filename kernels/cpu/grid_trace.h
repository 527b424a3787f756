// grid_sample's backward pass with each stage in float32 or float64 as requested, for the mode `mixed`. Slower than the
// loops, with the same bits: those of the deterministic float32 loops with no stage in float64, those of the float64
// loops with all of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/grid_table.h"

namespace msda::kernels {

// `float64_stages` is msda_options::float64_stages. Results may be null. In: float or double; with double all stages
// should be in float64.
template <class In>
void trace_grid(const cpu::GridProblem<In>& problem, uint32_t float64_stages, int threads, double* grad_input,
                double* grad_grid);

}  // namespace msda::kernels
