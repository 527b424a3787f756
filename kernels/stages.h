// The stages of one sample's backward pass, each in float32 or float64 as requested: msda_stages() returns them and the
// mode `mixed` computes them, on the CPU (cpu/trace.cpp) and on the GPU (cuda/msda/trace.cuh). Every double here holds
// a float or a double exactly. With no stage in float64 the results have the bits of the deterministic float32 loops,
// with all stages in float64 those of the float64 loops.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

// Runs compute(Real{}) in the arithmetic of a stage of any operator. `float64_stages` is msda_options::float64_stages.
template <class Compute>
MSDA_HOST_DEVICE inline auto in_precision(uint32_t float64_stages, int stage, Compute&& compute) {
  return ((float64_stages >> stage) & 1u) != 0 ? compute(double{}) : compute(float{});
}

// Returns a stage's input, rounded if it is wider than the stage's arithmetic.
template <class Real>
MSDA_HOST_DEVICE inline Real as(double x) {
  return static_cast<Real>(x);
}

// The stages that do not depend on channels.
struct TracedSpot {
  double pixel[2];  // x, y
  double cell[2];
  double slope[2], fraction[2];  // along x and y, as sample.h's Axis has them
  double weights[4];             // 0 where not sampled
  int64_t pixels[4];             // number of each corner within the level, -1 where it reads zero
  bool sampled;                  // false: the dialect skips it, and everything from the weights on is 0
};

// Computes these stages. `Problem`: anything with the conventions of a call.
template <class Problem>
MSDA_HOST_DEVICE inline TracedSpot trace_spot(const Problem& p, uint32_t float64_stages, double x, double y,
                                              const cpu::Level& level) {
  TracedSpot spot{};
  const double location[2] = {x, y};
  const int32_t size[2] = {level.width, level.height};
  int32_t low[2];
  spot.sampled = true;
  for (int i = 0; i < 2; ++i) {
    in_precision(float64_stages, MSDA_STAGE_PIXEL_COORDINATES, [&]<class Real>(Real) {
      const auto axis = locate(p.dialect, p.padding, p.align_corners, as<Real>(location[i]), size[i]);
      spot.pixel[i] = double(axis.pixel);
      spot.slope[i] = double(axis.slope);
      spot.fraction[i] = double(axis.fraction);
      low[i] = axis.low;
      spot.sampled = spot.sampled && axis.sampled;
    });
    spot.cell[i] = low[i];
  }
  corner_pixels(p, level, low[1], low[0], spot.pixels);
  if (!spot.sampled) return spot;
  in_precision(float64_stages, MSDA_STAGE_INTERPOLATION_WEIGHTS, [&]<class Real>(Real) {
    const auto weights = corner_weights(as<Real>(spot.fraction[1]), as<Real>(spot.fraction[0]));
    for (int i = 0; i < 4; ++i) spot.weights[i] = double(weights.w[i]);
  });
  return spot;
}

// Returns the number of a sample's cell in its level, or -1 if the sample contributes to no pixel of the level.
MSDA_HOST_DEVICE inline int64_t traced_cell(const TracedSpot& spot, const cpu::Level& level) {
  bool reached = false;
  for (int corner = 0; corner < 4; ++corner) reached = reached || spot.pixels[corner] >= 0;
  if (!spot.sampled || !reached) return -1;
  return (static_cast<int64_t>(spot.cell[1]) + 1) * (int64_t{level.width} + 1) + static_cast<int64_t>(spot.cell[0]) + 1;
}

// The functions below are for a sample that is not skipped, and one channel, whose corner values are `v`.

MSDA_HOST_DEVICE inline double trace_sampled_value(const TracedSpot& spot, uint32_t float64_stages,
                                                   const double (&v)[4]) {
  return in_precision(float64_stages, MSDA_STAGE_SAMPLED_VALUE, [&]<class Real>(Real) {
    CornerWeights<Real> weights;
    for (int i = 0; i < 4; ++i) weights.w[i] = as<Real>(spot.weights[i]);
    return double(interpolate(weights, as<Real>(v[0]), as<Real>(v[1]), as<Real>(v[2]), as<Real>(v[3])));
  });
}

MSDA_HOST_DEVICE inline double trace_contribution(uint32_t float64_stages, double weight, double grad_output,
                                                  double attention) {
  return in_precision(float64_stages, MSDA_STAGE_VALUE_CONTRIBUTIONS, [&]<class Real>(Real) {
    const Real weighted = as<Real>(grad_output) * as<Real>(attention);
    return double(value_contribution(as<Real>(weight), weighted));
  });
}

// One lane of the sums over channels (sample.h, kLanes), or all of them together: of the stage grad_attention_weights
// and, along x and y, of grad_sampling_locations.
struct TracedSums {
  double attention, x, y;
};

MSDA_HOST_DEVICE inline void trace_channel(const TracedSpot& spot, uint32_t float64_stages, double grad_output,
                                           const double (&v)[4], double sampled_value, TracedSums& lane) {
  in_precision(float64_stages, MSDA_STAGE_GRAD_ATTENTION_WEIGHTS, [&]<class Real>(Real) {
    lane.attention = double(fma(as<Real>(grad_output), as<Real>(sampled_value), as<Real>(lane.attention)));
  });
  in_precision(float64_stages, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, [&]<class Real>(Real) {
    const Real go = as<Real>(grad_output);
    const Real a = as<Real>(v[0]), c = as<Real>(v[1]), e = as<Real>(v[2]), g = as<Real>(v[3]);
    lane.x = double(fma(go, slope_across(a, c, e, g, as<Real>(spot.fraction[1])), as<Real>(lane.x)));
    lane.y = double(fma(go, slope_across(a, e, c, g, as<Real>(spot.fraction[0])), as<Real>(lane.y)));
  });
}

// Adds two lanes.
MSDA_HOST_DEVICE inline TracedSums add_traced(uint32_t float64_stages, const TracedSums& left,
                                              const TracedSums& right) {
  TracedSums sums{};
  in_precision(float64_stages, MSDA_STAGE_GRAD_ATTENTION_WEIGHTS, [&]<class Real>(Real) {
    sums.attention = double(as<Real>(left.attention) + as<Real>(right.attention));
  });
  in_precision(float64_stages, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, [&]<class Real>(Real) {
    sums.x = double(as<Real>(left.x) + as<Real>(right.x));
    sums.y = double(as<Real>(left.y) + as<Real>(right.y));
  });
  return sums;
}

// Stage grad_sampling_locations, x and y, from the sums over all channels.
MSDA_HOST_DEVICE inline void trace_location_gradient(const TracedSpot& spot, uint32_t float64_stages, double attention,
                                                     const TracedSums& sums, double (&gradient)[2]) {
  in_precision(float64_stages, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, [&]<class Real>(Real) {
    gradient[0] = double(location_gradient(as<Real>(sums.x), as<Real>(attention), as<Real>(spot.slope[0])));
    gradient[1] = double(location_gradient(as<Real>(sums.y), as<Real>(attention), as<Real>(spot.slope[1])));
  });
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
