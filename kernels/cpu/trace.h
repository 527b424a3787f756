// The backward pass of one sample, stage by stage, each in float32 or float64 as requested (stages.h), for the mode
// `mixed` and for msda_stage(). Slower than the loops, with the same bits: those of the deterministic float32 loops
// with no stage in float64, those of the float64 loops with all of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/msda.h"
#include "kernels/stages.h"

namespace msda::kernels {

// Results of one sample's stages. The pointers are to the caller's arrays, [D] and [4][D].
struct SampleTrace : TracedSpot {
  double grad_attention_weight;
  double grad_sampling_location[2];
  double* corner_values;
  double* sampled_value;
  double* value_contributions;
};

// `float64_stages` is msda_options::float64_stages. In: float or double; with double all stages should be in float64.
template <class In>
void trace_sample(const cpu::Problem<In>& problem, uint32_t float64_stages, int64_t b, int64_t q, int64_t m, int64_t l,
                  int64_t point, SampleTrace& trace);

// Stage grad_value of one batch, head and level from traced samples: what Loops::scatter_level does.
template <class In>
void trace_scatter(const cpu::Problem<In>& problem, uint32_t float64_stages, int64_t b, int64_t m, int64_t l,
                   double* grad_value);

}  // namespace msda::kernels
