// What a sample reads: pixels, each with the product of its weights along the axes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/operators/sampling/call.h"

namespace msda::analysis {

// A pixel that a sample reads, and what it is multiplied with.
struct Read {
  int64_t pixel;  // of the image, row-major; -1: none, it reads 0
  double weight;
  std::array<double, 3> by{};  // the weight's derivatives by the coordinates
  double twist = 1;            // the derivative by all of them
  // How far the nearest to 0 of its weights along the axes stays from 0, whatever the coordinates' errors.
  double from_0 = INFINITY;
  // Bounds on how much the coordinates' errors add to its magnitude or take away, and on what evaluating it adds. A
  // weight of 0 along one axis leaves little of any along the others.
  double grows = 0, shrinks = 0, evaluated = 0;
  double moved() const { return std::max(grows, shrinks); }
};

// Returns the reads of a sample. `axis` is that of the gradient of the locations, or -1 for what depends on the weights
// themselves; `weight_error` is the error of each weight along an axis.
Reads reads(const SamplingCall& call, const SampledImage& image, const Place& place, int axis, double weight_error = 0);

// Returns a bound on the error of a weight along an axis, or of its derivative, that is not relative to it: the error
// of evaluating cubic polynomials.
double weight_error(msda_interpolation interpolation, const Precision& precision);

// Returns the most that the magnitudes of a sample's weights, of all pixels that it reads, add up to; `sloped` along
// one axis.
double most_weight(const SamplingCall& call, bool sloped);

}  // namespace msda::analysis
