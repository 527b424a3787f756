// Compiled once per instruction set, with MSDA_ISA naming the copy (loops.h). Each loop vectorizes over lanes that are
// separate variables, so that no bit depends on the width of a register.
#include "analysis/operators/msda/loops.h"

#include <math.h>

#include "kernels/sample.h"

namespace msda::analysis {
inline namespace MSDA_ISA {
namespace {

constexpr int kLanes = 8;

// One side's coordinate along an axis. Constants for the dialects, so that the loop over the locations has no branches.
template <msda_dialect kDialect, bool kAlign, bool kContracted, class Real>
struct SideOfPair {
  static Real coordinate(Real location, Real size) {
    if constexpr (kContracted) {
      return kernels::contracted_coordinate(kDialect, kAlign, location, size);
    } else {
      return kernels::pixel_coordinate(kDialect, kAlign, location, size);
    }
  }
  static Real fraction(Real location, Real size, Real coordinate, Real low) {
    if constexpr (kContracted && kAlign && kDialect == MSDA_MSDA_TRITON) {
      return kernels::fma(location, size - Real(1), -low);
    } else {
      return coordinate - low;
    }
  }
};

template <class Observed, class Expected, class Real>
void distances_of(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed) {
  const float size = static_cast<float>(pair.size), last = static_cast<float>(pair.size - 1);
  const Real real_size = static_cast<Real>(size), real_last = static_cast<Real>(last);
  // At or beyond these coordinates the dialects' treatments differ, whatever the coordinates are.
  const float lowest = pair.border ? 0.0f : -1.0f, highest = pair.border ? last : size;
  const Real real_lowest = static_cast<Real>(lowest), real_highest = static_cast<Real>(highest);
  float* __restrict distances = landed.distances, * __restrict lows = landed.lows, * __restrict fractions = landed.fractions;
  for (int64_t i = 0; i < count; ++i) {
    const float location = locations[i];
    const Real real_location = static_cast<Real>(location);
    const float observed = Observed::coordinate(location, size), low = kernels::floor(observed);
    const Real expected = Expected::coordinate(real_location, real_size), other_low = kernels::floor(expected);
    const bool plain = (observed > lowest) & (expected > real_lowest) & (observed < highest) &
                       (expected < real_highest) & (static_cast<Real>(low) == other_low);
    const float fraction = Observed::fraction(location, size, observed, low);
    const Real difference =
        static_cast<Real>(fraction) - Expected::fraction(real_location, real_size, expected, other_low);
    // Beyond the border both read its pixel alone, but by other operations.
    const bool beyond =
        pair.border & (((observed < 0.0f) & (expected < Real(0))) | ((observed > last) & (expected > real_last)));
    distances[i] = plain ? static_cast<float>(::fabs(difference)) : beyond ? kBeyond : HUGE_VALF;
    lows[i] = low;
    fractions[i] = fraction;
  }
}

template <msda_dialect kObserved, msda_dialect kExpected, bool kAlign, bool kObservedContracted>
void choose_expected(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed) {
  using Observed = SideOfPair<kObserved, kAlign, kObservedContracted, float>;
  if (pair.expected_float64) {
    return distances_of<Observed, SideOfPair<kExpected, kAlign, false, double>, double>(pair, locations, count, landed);
  }
  const auto loop = pair.expected_contracted
                        ? &distances_of<Observed, SideOfPair<kExpected, kAlign, true, float>, float>
                        : &distances_of<Observed, SideOfPair<kExpected, kAlign, false, float>, float>;
  loop(pair, locations, count, landed);
}

template <msda_dialect kObserved, msda_dialect kExpected>
void choose_evaluation(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed) {
  const auto aligned = pair.observed_contracted ? &choose_expected<kObserved, kExpected, true, true>
                                                : &choose_expected<kObserved, kExpected, true, false>;
  const auto plain = pair.observed_contracted ? &choose_expected<kObserved, kExpected, false, true>
                                              : &choose_expected<kObserved, kExpected, false, false>;
  (pair.align_corners ? aligned : plain)(pair, locations, count, landed);
}

template <msda_dialect kObserved>
void choose_dialect(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed) {
  if (pair.expected_dialect == MSDA_DEFORMABLE_DETR)
    return choose_evaluation<kObserved, MSDA_DEFORMABLE_DETR>(pair, locations, count, landed);
  if (pair.expected_dialect == MSDA_MSDA_TRITON)
    return choose_evaluation<kObserved, MSDA_MSDA_TRITON>(pair, locations, count, landed);
  choose_evaluation<kObserved, MSDA_GRID_SAMPLE>(pair, locations, count, landed);
}

void distances(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed) {
  if (pair.observed_dialect == MSDA_DEFORMABLE_DETR)
    return choose_dialect<MSDA_DEFORMABLE_DETR>(pair, locations, count, landed);
  if (pair.observed_dialect == MSDA_MSDA_TRITON)
    return choose_dialect<MSDA_MSDA_TRITON>(pair, locations, count, landed);
  choose_dialect<MSDA_GRID_SAMPLE>(pair, locations, count, landed);
}

ChannelTotals channel_totals(const SampleRows& rows, float fraction_y, float fraction_x) {
  static constexpr float kZeros[kernels::kLanes] = {};
  const auto weights = kernels::corner_weights(fraction_y, fraction_x);
  kernels::ChannelSums<kernels::kLanes, float> sums;
  for (int64_t first = 0; first < rows.channels; first += kernels::kLanes) {
    const float* v[4];
    for (int c = 0; c < 4; ++c) v[c] = rows.corner[c] ? rows.corner[c] + first : kZeros;
    const auto add = [&](int j) {
      sums.add(j, rows.grad_output[first + j], weights, fraction_y, fraction_x, v[0][j], v[1][j], v[2][j], v[3][j]);
    };
    if (rows.channels - first >= kernels::kLanes) {
      for (int j = 0; j < kernels::kLanes; ++j) add(j);
    } else {
      for (int j = 0; j < rows.channels - first; ++j) add(j);
    }
  }
  return {kernels::sum_lanes(sums.attention), kernels::sum_lanes(sums.x), kernels::sum_lanes(sums.y)};
}

SlopeSums slope_sums(const SampleRows& rows) {
  static constexpr float kZeros[kLanes] = {};
  float lanes[8][kLanes] = {};
  for (int64_t first = 0; first < rows.channels; first += kLanes) {
    const int count = rows.channels - first < kLanes ? static_cast<int>(rows.channels - first) : kLanes;
    const float* v[4];
    for (int c = 0; c < 4; ++c) v[c] = rows.corner[c] ? rows.corner[c] + first : kZeros;
    const auto add = [&](int j) {
      const float go = rows.grad_output[first + j];
      const float terms[4] = {go * (v[1][j] - v[0][j]), go * (v[3][j] - v[2][j]), go * (v[2][j] - v[0][j]),
                              go * (v[3][j] - v[1][j])};
      for (int k = 0; k < 4; ++k) {
        lanes[k][j] += terms[k];
        lanes[4 + k][j] += fabsf(terms[k]);
      }
    };
    if (count == kLanes) {
      for (int j = 0; j < kLanes; ++j) add(j);
    } else {
      for (int j = 0; j < count; ++j) add(j);
    }
  }
  float sums[8];
  for (int k = 0; k < 8; ++k) sums[k] = kernels::sum_pairs<kLanes>(lanes[k]);
  return {{sums[0], sums[1]}, {sums[2], sums[3]}, {sums[4], sums[5]}, {sums[6], sums[7]}};
}

void extremes(const float* numbers, int64_t count, float* lowest, float* highest) {
  float low[kLanes], high[kLanes];
  for (int j = 0; j < kLanes; ++j) {
    low[j] = *lowest;
    high[j] = *highest;
  }
  const auto add = [&](int j, float x) {
    low[j] = x < low[j] ? x : low[j];
    high[j] = x > high[j] ? x : high[j];
  };
  int64_t first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (int j = 0; j < kLanes; ++j) add(j, numbers[first + j]);
  }
  for (; first < count; ++first) add(0, numbers[first]);
  for (int j = 0; j < kLanes; ++j) {
    *lowest = low[j] < *lowest ? low[j] : *lowest;
    *highest = high[j] > *highest ? high[j] : *highest;
  }
}

void squares(const float* numbers, int64_t rows, int64_t length, float* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* row_numbers = numbers + row * length;
    float lanes[kLanes] = {};
    int64_t first = 0;
    for (; first + kLanes <= length; first += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] += row_numbers[first + j] * row_numbers[first + j];
    }
    for (; first < length; ++first) lanes[0] += row_numbers[first] * row_numbers[first];
    sums[row] = kernels::sum_pairs<kLanes>(lanes);
  }
}

}  // namespace

extern const ScreenLoops kScreenLoops;
const ScreenLoops kScreenLoops = {&distances, &slope_sums, &channel_totals, &extremes, &squares};

}  // namespace MSDA_ISA
}  // namespace msda::analysis
