// What a sample of grid_sample reads: pixels, each with the product of its weights along the axes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {

// A pixel that a sample reads, and what it is multiplied with.
struct Read {
  int64_t pixel;  // of the image, row-major; -1: none, it reads 0
  double weight;
  std::array<double, 3> by;  // the weight's derivatives by the coordinates
  // How far the nearest to 0 of its weights along the axes stays from 0, whatever the coordinates' errors.
  double from_0 = INFINITY;
  // Bounds on how much the coordinates' errors add to its magnitude or take away, and on what evaluating it adds. A
  // weight of 0 along one axis leaves little of any along the others.
  double grows = 0, shrinks = 0, evaluated = 0;
  double moved() const { return std::max(grows, shrinks); }
};
using Reads = boost::container::static_vector<Read, 16>;

// Returns the reads of a sample. `axis` is that of the gradient of the grid, or -1 for what depends on the weights
// themselves; `weight_error` is the error of each weight along an axis.
Reads reads(const GridSampleCall& call, const Place& place, int axis, double weight_error = 0);

// Returns a bound on the error of a weight along an axis, or of its derivative, that is not relative to it: the error
// of evaluating cubic polynomials.
double weight_error(msda_interpolation interpolation, const Precision& precision);

// Returns the most that the magnitudes of a sample's weights, of all pixels that it reads, add up to; `sloped` along
// one axis.
double most_weight(const GridSampleCall& call, bool sloped);

// The samples that reach each pixel of one batch.
class GridContributions {
 public:
  struct Addend {
    int64_t sample;
    double weight;
    double weight_error;  // bound on the effect of the coordinates' errors and of evaluating it; 0 for computed addends
    bool is_signed;       // whatever its error: those of the weights along the axes leave no sign open
  };
  GridContributions(const GridSampleCall& call, int64_t n, const Precision& precision, const Narrowing* narrowing);

  // Returns addends with exact weights, and with weight 0 and its error for samples that only rounding brings here.
  std::span<const Addend> exact(int64_t pixel) const { return of(exact_, exact_begin_, pixel); }
  // Returns what samples that rounding may carry anywhere may add to any pixel of channel c. One sum for all pixels: in
  // 16 bits they may be a large part of all samples.
  const SumBound& from_anywhere(int64_t c) const { return from_anywhere_[static_cast<size_t>(c)]; }
  // Returns the largest magnitude in the batch's input.
  double largest_input() const { return largest_input_; }
  // Returns addends as kernels compute them.
  std::span<const Addend> computed(int64_t pixel) const { return of(computed_, computed_begin_, pixel); }

 private:
  struct Found {
    int64_t pixel;
    Addend addend;
  };
  static std::span<const Addend> of(const std::vector<Addend>& addends, const std::vector<int64_t>& begin,
                                    int64_t pixel) {
    const auto at = static_cast<size_t>(pixel);
    return {addends.data() + begin[at], addends.data() + begin[at + 1]};
  }
  void add_from_anywhere(const GridSampleCall& call, const GridSampleCall::SampleId& sample);
  void sort(const std::vector<Found>& found, int64_t pixels, std::vector<Addend>& addends, std::vector<int64_t>& begin);

  std::vector<Addend> exact_, computed_;
  std::vector<int64_t> exact_begin_, computed_begin_;
  std::vector<SumBound> from_anywhere_;  // by channel
  double largest_input_ = 0;
};

}  // namespace msda::analysis
