// What an operator that samples says of one sample: what it reads, and how kernels compute and add that.
#pragma once

#include <boost/container/static_vector.hpp>
#include <string>
#include <vector>

#include "analysis/model/call.h"

namespace msda::analysis {

// A pixel along one axis, and its weight with the first two derivatives by the coordinate.
struct Tap {
  int32_t pixel;  // -1: none, it reads 0
  double weight, slope = 0, curve = 0;
};
using Taps = boost::container::static_vector<Tap, 4>;

// A factor of an addend to the image's gradient, beside grad_output: the weight along an axis, or the sample's own.
struct SharedFactor {
  static constexpr int kOfSample = -1;
  const char* name;
  int axis;
};

class SamplingArithmetic {
 public:
  virtual ~SamplingArithmetic() = default;

  // Returns what a sample reads along an axis of `size` pixels if it landed there.
  virtual Taps taps(const Landing& landing, int32_t size) const = 0;
  // How kernels evaluate a coordinate and the weights: as ours do, as written, or as a compiler may.
  enum Variant : int {
    kOurKernels = 0,
    kWritten,
    kContracted,      // the coordinate's product and sum in one fused multiply-add
    kFusedDifference  // the coordinate's product fused with the subtraction of the cell
  };
  // Returns taps as kernels compute them, the weights only; none where a kernel skips the sample.
  virtual Taps computed_taps(const Axis& axis, msda_dtype type, int variant) const = 0;
  // Returns whether kernels multiply each pixel by grad_output and leave out what lies outside of the image. Others add
  // up the weighted pixels first, zeros included.
  virtual bool adds_pixels_apart() const = 0;
  // Returns whether bounds take weights, unless they are bicubic, to stay from 0 to 1. Where a compiler fuses the
  // coordinate's product with the subtraction of the cell, a weight may lie beyond 1 by the coordinate's error.
  virtual bool limits_weights_to_1() const = 0;
  // Distinguishes the conventions under which one cache serves the same tensors.
  virtual int64_t conventions_number() const { return 0; }
  // Returns an addend to the image's gradient, some steps of which may be rounded to fewer bits.
  virtual Uncertain narrowed_addend(const Narrowing& narrowing, const Uncertain& weight, double go,
                                    double factor) const = 0;
  // The factors of an addend; the variants of Additions::factor_arithmetics() are those of computed_taps().
  virtual std::vector<SharedFactor> shared_factors() const = 0;
  virtual std::string text_of_sample(int64_t sample) const = 0;  // "query 3, point 1, corner", to precede a tap
};

}  // namespace msda::analysis
