// Whether the errors of a result lean one way, as those of rounding do not: a factor that is slightly off, or results
// that are truncated, move all elements within bounds that hold for each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/model/material.h"

namespace msda::analysis {

enum class Direction { kAwayFromZero, kTowardsZero, kUpwards, kDownwards };
const char* name_of(Direction direction);

// A one-sided error of one gradient against float64.
struct Bias {
  Gradient gradient;
  Direction direction = Direction::kAwayFromZero;
  int64_t count = 0, total = 0;  // errors that lean so, and independent errors that there are
  double chance_bits = 0;        // right kernels have errors that lean so in at most one of 2^bits gradients
  double mean = 0;               // of the errors in that direction, beside the mean magnitude: in units of roundoff
};

// Finds a bias of the side, whose arithmetic has been detected. Returns nothing where errors are no evidence: sums in
// 16 bits lean by themselves, and if `control`, a right result of the same inputs, leans too, the inputs cause it.
std::optional<Bias> find_bias(const Material& material, const Side& side, const Side& control, Gradient gradient);

// "The errors of grad_input lean: all of 64 independent ones are away from 0, ..."
std::string text_of(const Bias& bias);

}  // namespace msda::analysis
