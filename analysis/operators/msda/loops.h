// The inner loops of the screen behind a table of function pointers: loops.cpp is compiled once for each instruction
// set, as kernels/cpu/loops.cpp is. The bits do not depend on which is chosen.
#pragma once

#include <cstdint>

namespace msda::analysis {

// What a pair of arithmetics makes of the coordinates of one pyramid level along one axis (kernels/sample.h).
struct CoordinatePair {
  int32_t observed_dialect, expected_dialect;  // msda_dialect
  bool observed_contracted, expected_contracted;
  bool expected_float64;  // the expected coordinate is computed in float64
  bool align_corners;
  bool border;  // padding
  int32_t size;
};

inline constexpr float kBeyond = 0x1p-60f;
struct Landed {
  float *distances, *lows, *fractions;
};

// A sample's four rows of channels, those of no pixel null, and its channels' grad_output.
struct SampleRows {
  const float* corner[4];
  const float* grad_output;
  int64_t channels;
};

// Sums over the channels of grad_output times differences of corner values: along x in the upper and the lower row,
// along y in the left and the right column. `magnitude` sums the terms' magnitudes.
struct SlopeSums {
  float x[2], y[2];
  float x_magnitude[2], y_magnitude[2];
};

struct ChannelTotals {
  float attention, x, y;
};

struct ScreenLoops {
  // For each location the distance in pixels of its coordinates in the two arithmetics: 0 if they have the same bits,
  // kBeyond if both lie beyond a padded border, infinite if they lie in different cells, elsewhere outside of the
  // level, on its border, or are no numbers. Beside it the observed cell and the fraction in it.
  void (*distances)(const CoordinatePair& pair, const float* locations, int64_t count, const Landed& landed);
  SlopeSums (*slope_sums)(const SampleRows& rows);
  // The sums over channels of one sample as kernels/sample.h adds them.
  ChannelTotals (*channel_totals)(const SampleRows& rows, float fraction_y, float fraction_x);
  // Lowers `lowest` and raises `highest` to what the numbers have.
  void (*extremes)(const float* numbers, int64_t count, float* lowest, float* highest);
  void (*squares)(const float* numbers, int64_t rows, int64_t length, float* sums);  // of each row
};

const ScreenLoops& screen_loops();

}  // namespace msda::analysis
