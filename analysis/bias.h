// Whether the errors of a result lean one way, as those of rounding do not: a factor that is slightly off, or results
// that are truncated, move all elements within bounds that hold for each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/material.h"

namespace msda::analysis {

enum class Direction { kAwayFromZero, kTowardsZero, kUpwards, kDownwards };
const char* name_of(Direction direction);

// Of errors against float64, of one gradient.
struct Bias {
  Gradient gradient;
  Direction direction = Direction::kAwayFromZero;
  int64_t count = 0, total = 0;  // errors that lean so, and independent errors that there are
  double chance_bits = 0;        // right kernels have errors that lean so in at most one of 2^bits gradients
  double mean = 0;               // of the errors in that direction, beside the mean magnitude: in units of roundoff
};

// The side's arithmetic has been detected. Empty also where errors tell nothing: sums in 16 bits lean by themselves,
// and where `control`, a right result of the same inputs, leans as well, the inputs make it.
std::optional<Bias> find_bias(const Material& material, const Side& side, const Side& control, Gradient gradient);

// "The errors of grad_input lean: all of 64 independent ones are away from 0, ..."
std::string text_of(const Bias& bias);

}  // namespace msda::analysis
