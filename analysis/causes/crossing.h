// How two sides came to land differently: shared by cell_boundary and border_clamp.
#pragma once

#include <optional>
#include <string>

#include "analysis/causes/causes.h"

namespace msda::analysis {

// The axis along which the sides' landings differ.
struct Crossing {
  size_t axis;      // 0 is x, 1 is y, 2 is z
  bool other_cell;  // the cells differ; otherwise only the border's clip does
  Axis at;
  double boundary;  // the boundary (or border) between them, in pixels
  double exact;     // the coordinate in exact arithmetic, under the observed side's conventions
  double distance;  // exact - boundary
  double ulps;      // |distance| in units in the last place of the arithmetic's type at the boundary
  MatchPair pair;
};

// Returns nothing unless both sides are explained, and only by different landings.
std::optional<Crossing> find_crossing(const Suspect&);

// Returns whether a sample lies on a border beyond which nothing is read, and a side counts it as beyond, where the
// gradient is 0, though no rounding in its arithmetic brings it there.
bool is_counted_as_beyond(const Suspect&, const Crossing&);

// Location, exact coordinate, each side's coordinate in decimal and hex with its cell, errors, gradients of both
// landings.
Evidence crossing_evidence(const Suspect&, const Crossing&);

// A side's coordinate along the crossing's axis as its arithmetic gives it, in the evaluation that agrees with its
// value. Empty where none that is known does: then rounding of another kind brought it there.
struct SideCoordinate {
  std::optional<double> coordinate;
  std::string hex, evaluation;
  int32_t cell;
  std::string description;  // by the operator, in place of the coordinate
  // "4.5 (0x40900000)", or "a coordinate".
  std::string text() const;
};
SideCoordinate side_coordinate(const Suspect&, const Crossing&, const Side&, const Match&);

}  // namespace msda::analysis
