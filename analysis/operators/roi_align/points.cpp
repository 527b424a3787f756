// The points of ROIAlign's bins: where they lie, which pixels they read, and how far rounding may carry them.
#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cmath>

#include "analysis/operators/roi_align/call.h"

namespace msda::analysis {
namespace {

// Variants of FactorArithmetic. In the second a product is fused into the sum that it is an addend of.
enum : int { kAsWritten, kFused };

// A box along an axis, in pixels, computed by Real's operations.
struct BoxSide {
  double start, length, bin;  // of a bin: its length
};

// As torchvision writes it, each result rounded to a type; or with an edge's product fused into its difference.
BoxSide side_in(const RoiAlignCall& call, int64_t box, int axis, msda_dtype type, bool fused = false) {
  const auto rounded = [&](double x) { return rounded_to(x, type); };
  const double scale = rounded(call.spatial_scale), offset = call.aligned ? 0.5 : 0;
  const auto edge = [&](int64_t number) {
    const double at = call.boxes.at(box * 5 + number + axis);
    return fused ? rounded(std::fma(at, scale, -offset)) : rounded(rounded(at * scale) - offset);
  };
  BoxSide side{edge(1), 0, 0};
  side.length = rounded(edge(3) - side.start);
  if (!call.aligned) side.length = std::max(side.length, 1.0);
  side.bin = rounded(side.length / static_cast<double>(call.bins[axis]));
  return side;
}

// Points of a bin by its length; kernels that a caller has checked make no more than an int holds. NaN is 0 to a GPU.
int64_t rounded_up(double length) {
  constexpr double kMost = 1e9;
  return std::isnan(length) ? 0 : static_cast<int64_t>(std::clamp(std::ceil(length), 0.0, kMost));
}

// Whether the operations as written round nothing. Products of float32 numbers are exact in float64.
bool is_exact(const RoiAlignCall& call, const BoxSide& exact, const BoxSide& written, msda_dtype type) {
  return rounded_to(call.spatial_scale, type) == call.spatial_scale && exact.start == written.start &&
         exact.length == written.length && exact.bin == written.bin;
}

// The numbers of points of a bin along an axis: that of exact arithmetic, and those that kernels of a type may arrive
// at, which are others only where rounding carries the bin's length over a whole number. A type in which the box is not
// finite has none.
using PointCounts = boost::container::static_vector<int64_t, 5>;
PointCounts counts_in(const RoiAlignCall& call, int64_t box, int axis, msda_dtype type) {
  if (call.sampling_ratio > 0) return {call.sampling_ratio};
  const BoxSide exact = side_in(call, box, axis, MSDA_FLOAT64);
  PointCounts counts{rounded_up(exact.bin)};
  const auto add = [&](double length) {
    const int64_t count = rounded_up(length);
    if (std::isfinite(length) && std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  };
  const BoxSide written = side_in(call, box, axis, type);
  add(written.bin);
  add(side_in(call, box, axis, type, true).bin);
  // Where something is rounded at all, fast divisions of float32 are 2 units in the last place off at most. 16-bit
  // numbers are divided in float32, and rounded.
  if (type != MSDA_FLOAT32 || is_exact(call, exact, written, type)) return counts;
  constexpr double kFast = 0x1p-22;
  add(written.bin * (1 - kFast));
  add(written.bin * (1 + kFast));
  return counts;
}

msda_dtype type_of(const Precision& precision) {
  for (const msda_dtype type : {MSDA_BFLOAT16, MSDA_FLOAT16, MSDA_FLOAT32}) {
    if (precision.bits <= Precision::of(type).bits) return type;
  }
  return MSDA_FLOAT64;
}

struct PointTap {
  int64_t pixel;
  double weight, error;
};
using PointTaps = boost::container::static_vector<PointTap, 4>;

// What a point at a coordinate reads along an axis; nothing where it lies outside.
PointTaps taps_at(double at, int64_t size) {
  const auto sides = static_cast<double>(size);
  if (!(at >= -1 && at <= sides)) return {};  // nor does NaN read anything
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {{size - 1, 1, 0}, {size - 1, 0, 0}};
  const double fraction = at - static_cast<double>(low);
  return {{low, 1 - fraction, 0}, {low + 1, fraction, 0}};
}

// The same of a coordinate that rounding may carry somewhat away.
PointTaps taps_within(double at, double error, int64_t size) {
  const auto sides = static_cast<double>(size);
  if (std::isnan(at)) return {};
  const bool is_outside = at < -1 || at > sides;
  PointTaps taps = taps_at(is_outside ? std::clamp(at, -1.0, sides) : at, size);
  const bool may_cross = std::abs(at + 1) <= error || std::abs(at - sides) <= error;
  if (is_outside && !may_cross) return {};
  for (PointTap& tap : taps) {
    tap.error = error + (may_cross ? std::abs(tap.weight) : 0);
    if (is_outside) tap.weight = 0;
  }
  const double inside = std::max(at, 0.0), fraction = inside - std::floor(inside);
  const auto low = static_cast<int64_t>(inside);
  if (fraction <= error && low >= 1) taps.push_back({std::min(low - 1, size - 1), 0, error});
  if (fraction >= 1 - error && low + 2 < size) taps.push_back({low + 2, 0, error});
  return taps;
}

}  // namespace

int64_t RoiAlignCall::points_of(int64_t box, int axis, msda_dtype type) const {
  if (sampling_ratio > 0) return sampling_ratio;
  return rounded_up(side_in(*this, box, axis, type).bin);
}

long double RoiAlignCall::point_count() const {
  const auto most = [&](int64_t box, int axis) {
    int64_t count = 0;
    for (const msda_dtype type : {MSDA_BFLOAT16, MSDA_FLOAT16, MSDA_FLOAT32, MSDA_FLOAT64}) {
      count = std::max(count, std::ranges::max(counts_in(*this, box, axis, type)));
    }
    return static_cast<long double>(count);
  };
  long double points = 0;
  for (int64_t box = 0; box < boxes.shape[0]; ++box) points += most(box, 0) * most(box, 1);
  return points * static_cast<long double>(bins_of_box());
}

RoiAlignCall::Bin RoiAlignCall::bin_of(int64_t source) const {
  const int64_t of_box = source % bins_of_box();
  return {source / bins_of_box(), {of_box % bins[0], of_box / bins[0]}};
}

int64_t RoiAlignCall::source_of(int64_t sample) const {
  const auto after = std::ranges::upper_bound(*first_point_, sample);
  const int64_t box = after - first_point_->begin() - 1, first = *(after - 1),
                points = (*after - first) / bins_of_box();
  return box * bins_of_box() + (sample - first) / points;
}

std::vector<FactorArithmetic> RoiAlignCall::factor_arithmetics() const {
  std::vector<FactorArithmetic> all{{"coordinates as written", arithmetic(), kAsWritten},
                                    {"coordinates with fused multiply-adds", arithmetic(), kFused}};
  // Kernels compute 16-bit tensors in their type.
  if (arithmetic_of(grad_output.dtype) != grad_output.dtype) {
    all.push_back({"coordinates as written", grad_output.dtype, kAsWritten});
  }
  return all;
}

void RoiAlignCall::send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const {
  const auto rounded = [&](double x) { return rounded_to(x, by.type); };
  const int64_t source = source_of(sample);
  const Bin bin = bin_of(source);
  const int64_t first = (*first_point_)[static_cast<size_t>(bin.box)];
  const int64_t counts[2] = {points_of(bin.box, 0, arithmetic()), points_of(bin.box, 1, arithmetic())};
  const int64_t point = (sample - first) % (counts[0] * counts[1]);
  const int64_t numbers[2] = {point % counts[0], point / counts[0]};
  PointTaps along[2];
  for (int axis = 0; axis < 2; ++axis) {
    const BoxSide side = side_in(*this, bin.box, axis, by.type, by.variant == kFused);
    const auto count = static_cast<double>(counts[axis]);
    const double in_bin = rounded(rounded((static_cast<double>(numbers[axis]) + 0.5) * side.bin) / count);
    const auto number = static_cast<double>(bin.at[axis]);
    const double of_bin = by.variant == kFused ? rounded(std::fma(number, side.bin, side.start))
                                               : rounded(side.start + rounded(number * side.bin));
    const double at = rounded(of_bin + in_bin);
    along[axis] = taps_at(at, sides[axis]);
    for (PointTap& tap : along[axis]) tap.weight = rounded(tap.weight);
  }
  const int64_t batch = static_cast<int64_t>(boxes.at(bin.box * 5));
  Contribution one{0, source};
  one.count = static_cast<double>(counts[0] * counts[1]);
  const double share = rounded(1 / one.count);
  for (const PointTap& y : along[1]) {
    for (const PointTap& x : along[0]) {
      one.target = batch * to_.minor + y.pixel * sides[0] + x.pixel;
      one.factors = {x.weight, y.weight, share};
      visit(one);
      ++one.corner;
    }
  }
}

void RoiAlignCall::send_exactly(int64_t source, const Precision& precision, const VisitExact& visit) const {
  const Bin bin = bin_of(source);
  const int64_t batch = static_cast<int64_t>(boxes.at(bin.box * 5));
  BoxSide along[2];
  double errors[2];  // of a coordinate
  PointCounts possible[2];
  for (int axis = 0; axis < 2; ++axis) {
    along[axis] = side_in(*this, bin.box, axis, MSDA_FLOAT64);
    const double edge =
        std::max(std::abs(boxes.at(bin.box * 5 + 1 + axis)), std::abs(boxes.at(bin.box * 5 + 3 + axis)));
    // An edge has three roundings: of the scale, of the product, and of the difference, at most half a pixel larger.
    const double of_edge = precision.unit * (3 * edge * std::abs(spatial_scale) + 1);
    // The length has one more, and so has the bin; then there are its place, and the point's.
    const double of_bin =
        (2 * of_edge + 2 * precision.unit * std::abs(along[axis].length)) / static_cast<double>(bins[axis]);
    errors[axis] = of_edge + static_cast<double>(bin.at[axis] + 1) * of_bin +
                   4 * precision.unit * (std::abs(along[axis].start) + std::abs(along[axis].length));
    possible[axis] = counts_in(*this, bin.box, axis, type_of(precision));
  }
  // Where the number of points hangs on rounding, all of them may be others.
  const bool varies = possible[0].size() * possible[1].size() > 1;
  for (const int64_t rows : possible[1]) {
    for (const int64_t columns : possible[0]) {
      const bool is_exact = rows == possible[1].front() && columns == possible[0].front();
      const double share = 1 / static_cast<double>(rows * columns);
      const int64_t counts[2] = {columns, rows};
      const auto taps = [&](int axis, int64_t number) {
        const double at =
            along[axis].start + (static_cast<double>(bin.at[axis]) +
                                 (static_cast<double>(number) + 0.5) / static_cast<double>(counts[axis])) *
                                    along[axis].bin;
        return taps_within(at, errors[axis], sides[axis]);
      };
      for (int64_t row = 0; row < rows; ++row) {
        const PointTaps along_y = taps(1, row);
        for (int64_t column = 0; column < columns && !along_y.empty(); ++column) {
          const PointTaps along_x = taps(0, column);
          for (const PointTap& y : along_y) {
            for (const PointTap& x : along_x) {
              const double weight = x.weight * y.weight * share;
              const double farthest = (std::abs(x.weight) + x.error) * (std::abs(y.weight) + y.error) * share;
              const double error = varies ? farthest : farthest - std::abs(weight);
              visit({batch * to_.minor + y.pixel * sides[0] + x.pixel, is_exact ? weight : 0, error});
            }
          }
        }
      }
    }
  }
}

}  // namespace msda::analysis
