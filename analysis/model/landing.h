// Where a sample may land along one axis: in the cell that exact arithmetic gives, and, if the pixel coordinate lies
// within its rounding error of a boundary, in the next cell, or at the border's clip.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace msda::analysis {

// A pixel coordinate: the exact value, and a bound on the error of a rounded evaluation.
struct Coordinate {
  double exact;  // the formula in float64: exact or nearly exact for float32 locations
  double error;  // bound on |computed - exact| over every way to evaluate the formula in the given precision
};

struct Landing {
  int32_t low;     // the cell's lower corner; -2 if skipped
  int32_t region;  // the interval on which the gradient is smooth: the cell, or all that lies beyond the border (-1 and
                   // size - 1 under border padding) or reads nothing but zeros (kOutside)
  bool skipped;    // the kernel skips the sample
  bool clipped;    // to the border, where the gradient is 0
  double fraction;  // distance from `low`
  double error;     // of `fraction`: that of the coordinate; infinite if rounding may carry the sample anywhere
  double slope;     // d pixel / d location
  bool last_resort = false;  // explains only what no other landing does

  static constexpr int32_t kOutside = -2;
  bool operator==(const Landing& landing) const { return region == landing.region; }
};

// Every landing within the coordinate's error, the exact one first. If the error spans several cells (locations far
// outside, float16 arithmetic), at most kMostLandings, nearest first.
inline constexpr int kMostLandings = 8;
using Landings = boost::container::static_vector<Landing, kMostLandings + 2>;

// Where a sample landed, by axis. Empty for what adds up many samples, whose terms agree at the boundaries.
using Place = boost::container::static_vector<Landing, 3>;

// Calls visit(place) for each way in which a sample may have landed, the exact one first, until it returns true: its
// landings along each axis are given, and those that `place` begins with are taken. Returns what visit() returned last.
template <class Visit>
bool visit_places(const std::vector<Landings>& along, Place& place, Visit&& visit) {
  if (place.size() == along.size()) return visit(place);
  for (const Landing& landing : along[place.size()]) {
    place.push_back(landing);
    const bool found = visit_places(along, place, visit);
    place.pop_back();
    if (found) return true;
  }
  return false;
}

// Returns the cell boundary nearest to a coordinate: an integer.
inline double nearest_boundary(double coordinate) { return std::nearbyint(coordinate); }

// One way in which a compiler may evaluate a coordinate.
struct Evaluation {
  std::string name;           // "as written", "contracted" (with fused multiply-adds)
  double coordinate;          // its result
  Landing landing;            // where that is
  bool stops = false;         // it is what a count has stopped at that its type cannot count beyond
  std::string description{};  // in place of the coordinate, where something else decides the landing
};

}  // namespace msda::analysis
