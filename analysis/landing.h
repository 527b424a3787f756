// Where a location may land along one axis of a level: in the cell that exact arithmetic gives, and, if the pixel
// coordinate lies within its rounding error of a boundary, in the next cell, or at the border's clip.
#pragma once

#include <boost/container/static_vector.hpp>
#include <string>
#include <vector>

#include "analysis/call.h"

namespace msda::analysis {

// A pixel coordinate: the exact value, and a bound on the error of a rounded evaluation.
struct Coordinate {
  double exact;  // the dialect's formula in float64: exact or nearly exact for float32 locations
  double error;  // bound on |computed - exact| over every way to evaluate the formula in the given precision
};

Coordinate pixel_coordinate(const Conventions& conventions, double location, int32_t size, const Precision& precision);

struct Landing {
  int32_t low;     // the cell's lower corner, as Axis::low; -2 if skipped
  int32_t region;  // the interval on which the gradient is smooth: the cell, or all that lies beyond the border (-1 and
                   // size - 1 under border padding) or reads nothing but zeros (kOutside)
  bool skipped;    // the dialect skips the sample
  bool clipped;    // grid_sample's clip: on the border, gradient 0
  double fraction;  // distance from `low`
  double error;     // of `fraction`: that of the coordinate
  double slope;     // d pixel / d location

  static constexpr int32_t kOutside = -2;
  bool operator==(const Landing& other) const { return region == other.region; }
};

// Every landing within the coordinate's error, the exact one first. If the error spans several cells (locations far
// outside, float16 arithmetic), at most kMostLandings, nearest first.
inline constexpr int kMostLandings = 8;
using Landings = boost::container::static_vector<Landing, kMostLandings + 2>;
Landings landings(const Conventions& conventions, double location, int32_t size, const Precision& precision);

// The cell boundary nearest to a coordinate: an integer.
double nearest_boundary(double coordinate);

// One way in which a compiler may evaluate a dialect's coordinate in float32.
struct Evaluation {
  std::string name;   // "as written", "contracted" (with fused multiply-adds)
  double coordinate;  // its result
  Landing landing;    // where that is
};
// In float32, or in float64 for float64 arithmetic. The first is that of kernels/sample.h.
std::vector<Evaluation> evaluations(const Conventions& conventions, double location, int32_t size,
                                    msda_dtype arithmetic);

}  // namespace msda::analysis
