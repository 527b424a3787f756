// Rounder numbers in place of those of an input, tried one by one or many at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "analysis/model/call.h"

namespace msda::analysis {

// Whether the inputs still show what is to be shown; it then takes them over.
using TryInputs = std::function<bool(const Inputs& inputs)>;

// Tries zeros, ones and fewer bits of the significand in the floating-point inputs, until nothing more is accepted.
// Returns the inputs accepted last.
Inputs simplify_numbers(Inputs inputs, const TryInputs& accepts);

// x with `bits` bits of its significand, rounded to nearest.
double with_bits(double x, int bits);
// Bits of the significand that x needs; 0 for 0, infinities and NaN.
int bits_of(double x);

}  // namespace msda::analysis
