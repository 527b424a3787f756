// One element of a gradient: its value in exact arithmetic, and a bound on what rounding may do to it.
//
// Both are sums. grad_attention_weights and grad_sampling_locations sum 4*D terms, one for each channel and corner of
// one sample; grad_value sums a term for each sample corner that reaches the pixel. The bound holds for any order of
// the sum and any arrangement of each term's factors, in a given precision, with the sample landed in a given cell:
//
//     error <= (kTermRoundings + sum_growth(n)) * u * sum of |terms|  +  what the coordinate's error moves it by
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "analysis/call.h"
#include "analysis/landing.h"

namespace msda::analysis {

// Roundings that a term may see on its way: 1 - fraction, the weight, value, grad_output, attention, the slope, and
// PyTorch and CUDA builds of the formula have up to three more.
inline constexpr double kTermRoundings = 10;

// Growth of the error of a sum of n terms in units of u * sum |terms|: n - 1 in the worst case, and not above
// kSigmas * sqrt(n) but with probability 2 exp(-kSigmas^2 / 2) = 3e-14 if roundings are independent (Higham and Mary,
// 2019). A sum whose roundings are not is caught by trying orders (cause accumulation_order).
inline constexpr double kSigmas = 8;
double sum_growth(int64_t terms);

struct Element {
  double value = 0;      // exact: float64 arithmetic on the captured bits
  double magnitude = 0;  // sum of |terms|
  int64_t terms = 0;
  double cancelled = 0;  // sum over channels (for grad_value: samples) of |its part|: what the value is small beside
  double from_coordinates = 0;  // bound on what the errors of the coordinates move it by
  double from_rounding = 0;     // bound on what rounding the terms and the sum adds

  double bound() const { return from_coordinates + from_rounding; }
  double condition() const { return value != 0 ? cancelled / std::abs(value) : INFINITY; }
};

// The rows of `value` that the corners of a cell read, -1 for zero: pixels of the whole pyramid.
using CornerRows = std::array<int64_t, 4>;
CornerRows corner_rows(const Conventions& conventions, const LevelSize& level, int32_t low_x, int32_t low_y);

// A sample's gradients with the cells it landed in; `rows` as of those cells, or, to try what a fault would give,
// others.
Element sample_element(const Call& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const CornerRows& rows, const Precision& precision);
Element sample_element(const Call& call, const Conventions& conventions, const SampleId& sample, Gradient gradient,
                       int axis, const Landing& x, const Landing& y, const Precision& precision);

// The samples that reach each pixel of one batch, head and level, under one set of conventions: found once, kept.
class Contributions {
 public:
  struct Addend {
    int64_t s, q, p;  // pixel of the whole pyramid, query, point
    int corner;
    double weight;        // of the corner
    double weight_error;  // bound on what the coordinates' errors move it by; 0 for computed addends
  };
  Contributions(const Call& call, const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                const Precision& precision);

  // With exact weights, in the order of (q, p, corner). A sample that only rounding can bring here is among them, with
  // weight 0 and its error.
  std::span<const Addend> exact(int64_t s) const { return of_pixel(exact_, s); }
  // As kernels/sample.h computes them in the call's own arithmetic.
  std::span<const Addend> computed(int64_t s) const { return of_pixel(computed_, s); }

 private:
  static std::span<const Addend> of_pixel(const std::vector<Addend>& addends, int64_t s);
  std::vector<Addend> exact_, computed_;  // sorted by s
};

// Contributions of a call by (conventions, b, m, l), made when first asked for. The oldest go when they grow many.
class ContributionCache {
 public:
  explicit ContributionCache(const Call& call) : call_(&call) {}
  const Contributions& get(const Conventions& conventions, int64_t b, int64_t m, int64_t l, const Precision& precision);

 private:
  struct Entry {
    std::vector<int64_t> key;
    std::unique_ptr<Contributions> contributions;
  };
  const Call* call_;
  std::vector<Entry> entries_;
};

// Where an element of grad_value lies.
struct PixelId {
  int64_t b, s, m, d;  // of grad_value [B,S,M,D]
  int64_t l;           // the level that s belongs to
};
PixelId pixel_of(const Call& call, int64_t flat);

Element pixel_element(const Call& call, const PixelId& pixel, std::span<const Contributions::Addend> exact,
                      const Precision& precision);

// The addends of an element as a kernel in the call's own arithmetic makes them.
std::vector<double> computed_addends(const Call& call, const PixelId& pixel,
                                     std::span<const Contributions::Addend> computed);

}  // namespace msda::analysis
