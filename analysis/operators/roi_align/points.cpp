// The points of ROIAlign's bins: where they lie, which pixels they read, and how far rounding may carry them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cmath>
#include <iterator>
#include <optional>

#include "analysis/operators/roi_align/call.h"

namespace msda::analysis {
namespace {

// Variants of FactorArithmetic. In the second a product is fused into the sum that it is an addend of.
enum : int { kAsWritten, kFused };

// A box along an axis, in pixels, computed by Real's operations.
struct BoxSide {
  double start, length, bin;  // of a bin: its length
};

// Computes as torchvision writes it, each result rounded to a type; or with an edge's product fused into its
// difference.
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

// Returns whether the operations as written round nothing. Products of float32 numbers are exact in float64.
bool is_exact(const RoiAlignCall& call, const BoxSide& exact, const BoxSide& written, msda_dtype type) {
  return rounded_to(call.spatial_scale, type) == call.spatial_scale && exact.start == written.start &&
         exact.length == written.length && exact.bin == written.bin;
}

// Where something is rounded at all, fast divisions of float32 are 2 units in the last place off at most. 16-bit
// numbers are divided in float32, and rounded.
constexpr double kFast = 0x1p-22;

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
  if (type != MSDA_FLOAT32 || is_exact(call, exact, written, type)) return counts;
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

// How many points a bin of a box has along an axis, by one way of computing that; as in exact arithmetic, which is the
// first way, where the type has no number for it.
struct CountWay {
  msda_dtype type;
  bool fused = false;
  int fast[2] = {0, 0};  // by axis: a division that errs upwards, or downwards
};
constexpr CountWay kCountWays[] = {{MSDA_FLOAT64},
                                   {MSDA_FLOAT64, true},
                                   {MSDA_FLOAT32},
                                   {MSDA_FLOAT32, true},
                                   {MSDA_FLOAT16},
                                   {MSDA_FLOAT16, true},
                                   {MSDA_BFLOAT16},
                                   {MSDA_BFLOAT16, true},
                                   {MSDA_FLOAT32, false, {1, 1}},
                                   {MSDA_FLOAT32, false, {1, 0}},
                                   {MSDA_FLOAT32, false, {0, 1}},
                                   {MSDA_FLOAT32, false, {-1, -1}},
                                   {MSDA_FLOAT32, false, {-1, 0}},
                                   {MSDA_FLOAT32, false, {0, -1}}};
constexpr int kFirstFast = 8;
// Whatever counts_in() has, box by box: a division may round up in one of them, and down in the next.
constexpr int kAnyCount = std::size(kCountWays);

int way_in(msda_dtype type, bool fused) {
  const auto* way = std::ranges::find_if(
      kCountWays, [&](CountWay candidate) { return candidate.type == type && candidate.fused == fused; });
  return static_cast<int>(way - kCountWays);
}

double length_by(const RoiAlignCall& call, int64_t box, int axis, int way) {
  const CountWay& by = kCountWays[way];
  const BoxSide exact = side_in(call, box, axis, MSDA_FLOAT64), side = side_in(call, box, axis, by.type, by.fused);
  if (!std::isfinite(side.bin)) return exact.bin;
  return is_exact(call, exact, side, by.type) ? side.bin : side.bin * (1 + by.fast[axis] * kFast);
}

int64_t count_by(const RoiAlignCall& call, int64_t box, int axis, int way) {
  return call.sampling_ratio > 0 ? call.sampling_ratio : rounded_up(length_by(call, box, axis, way));
}

struct PointTap {
  int64_t pixel;
  double weight, error;
};
using PointTaps = boost::container::static_vector<PointTap, 4>;

// Returns what a point at a coordinate reads along an axis; nothing where it lies outside.
PointTaps taps_at(double at, int64_t size) {
  const auto sides = static_cast<double>(size);
  if (!(at >= -1 && at <= sides)) return {};  // nor does NaN read anything
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {{size - 1, 1, 0}, {size - 1, 0, 0}};
  const double fraction = at - static_cast<double>(low);
  return {{low, 1 - fraction, 0}, {low + 1, fraction, 0}};
}

// Returns the same of a coordinate that rounding may carry somewhat away.
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

struct RoiAlignCall::Ways {
  struct Box {
    int64_t box;
    int axis;  // along which its number of points varies
    int64_t batch;
    double first[2], last[2];  // pixels, by axis
    bool fast, mixed;          // fast divisions change the number; upwards along one axis and downwards along the other
  };
  std::vector<Box> boxes;
  std::array<int, kAnyCount> first_alike{};  // by way: the first that has the same numbers
};

std::shared_ptr<const RoiAlignCall::Ways> RoiAlignCall::find_ways() const {
  if (sampling_ratio > 0 || !boxes) return nullptr;
  const auto is_computed = [&](msda_dtype type) { return !is_16_bits(type) || type == grad_output.dtype; };
  std::array<std::vector<int64_t>, kAnyCount> counts;
  auto ways = std::make_shared<Ways>();
  for (int64_t box = 0; box < K; ++box) {
    std::optional<int> varies;
    bool up[2], down[2];
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t exact = count_by(*this, box, axis, 0),
                    written = count_by(*this, box, axis, way_in(MSDA_FLOAT32, false));
      for (int way = 0; way < kAnyCount; ++way) {
        const int64_t count = is_computed(kCountWays[way].type) ? count_by(*this, box, axis, way) : exact;
        counts[static_cast<size_t>(way)].push_back(count);
        if (count != exact) varies = axis;
      }
      up[axis] = count_by(*this, box, axis, kFirstFast) != written;
      down[axis] = count_by(*this, box, axis, kFirstFast + 3) != written;
    }
    if (!varies) continue;
    Ways::Box varying{box,
                      *varies,
                      static_cast<int64_t>(boxes.at(box * 5)),
                      {},
                      {},
                      up[0] || up[1] || down[0] || down[1],
                      (up[0] && down[1]) || (up[1] && down[0])};
    for (int axis = 0; axis < 2; ++axis) {
      constexpr double kBeside = 2;  // a point reads the pixels on both sides, and rounding may move it
      const BoxSide side = side_in(*this, box, axis, MSDA_FLOAT64);
      varying.first[axis] = side.start + std::min(0.0, side.length) - kBeside;
      varying.last[axis] = side.start + std::max(0.0, side.length) + kBeside;
    }
    ways->boxes.push_back(varying);
  }
  for (size_t way = 0; way < kAnyCount; ++way) {
    ways->first_alike[way] = static_cast<int>(std::ranges::find(counts, counts[way]) - counts.begin());
  }
  return ways;
}

// Returns the axis of the first box that varies; its number has a 2 in it where several may differ in how they are
// divided.
Axes RoiAlignCall::axes(const ElementId& id) const {
  if (!ways_) return {};
  const int64_t batch = id.flat / to_.minor / C, pixel = id.flat % to_.minor;
  const int64_t row = pixel / sides[0];
  const double at[2] = {static_cast<double>(pixel % sides[0]), static_cast<double>(row)};
  Axes axes;
  int fast = 0;
  for (const Ways::Box& varying : ways_->boxes) {
    const auto reaches = [&](int axis) { return at[axis] >= varying.first[axis] && at[axis] <= varying.last[axis]; };
    if (varying.batch != batch || !reaches(0) || !reaches(1)) continue;
    if (axes.empty()) axes.push_back({static_cast<double>(varying.box), 0, boxes.dtype, varying.axis});
    fast += varying.mixed ? 2 : varying.fast;
    if (fast < 2) continue;
    axes[0].number |= 2;
    break;
  }
  return axes;
}

Landings RoiAlignCall::landings(const Axis& axis, const Precision& precision) const {
  const msda_dtype type = type_of(precision);
  Landings all;
  const auto add = [&](int way, bool last_resort) {
    Landing landing{};
    landing.region = way == kAnyCount ? way : ways_->first_alike[static_cast<size_t>(way)];
    landing.last_resort = last_resort;
    if (std::ranges::find(all, landing) == all.end()) all.push_back(landing);
  };
  for (const int way : {0, way_in(type, false), way_in(type, true)}) add(way, false);
  if (type != MSDA_FLOAT32) return all;
  for (int way = kFirstFast; way < kAnyCount; ++way) add(way, true);
  if ((axis.number & 2) != 0) add(kAnyCount, true);
  return all;
}

std::vector<Evaluation> RoiAlignCall::evaluations(const Axis& axis, msda_dtype type) const {
  const auto box = static_cast<int64_t>(axis.location);
  const int along = axis.number & 1;
  std::vector<Evaluation> all;
  const auto add = [&](const char* name, int way) {
    Evaluation evaluation{name, length_by(*this, box, along, way), {}};
    evaluation.landing.region = ways_->first_alike[static_cast<size_t>(way)];
    const int64_t count = count_by(*this, box, along, way);
    evaluation.description =
        fmt::format("a bin of box {} is {:.{}g} pixels {} and has {} {}{} of points", box, evaluation.coordinate,
                    type == MSDA_FLOAT64 ? 17 : 9, along == 0 ? "wide" : "high", count, along == 0 ? "column" : "row",
                    count == 1 ? "" : "s");
    all.push_back(std::move(evaluation));
  };
  add("as written", way_in(type, false));
  add("with fused multiply-adds", way_in(type, true));
  add("in exact arithmetic", 0);
  for (int way = kFirstFast; type == MSDA_FLOAT32 && way < kAnyCount; ++way) add("with a fast division", way);
  return all;
}

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
  Contribution contribution{0, source};
  contribution.count = static_cast<double>(counts[0] * counts[1]);
  const double share = rounded(1 / contribution.count);
  for (const PointTap& y : along[1]) {
    for (const PointTap& x : along[0]) {
      contribution.target = batch * to_.minor + y.pixel * sides[0] + x.pixel;
      contribution.factors = {x.weight, y.weight, share};
      visit(contribution);
      ++contribution.corner;
    }
  }
}

void RoiAlignCall::send_exactly(int64_t source, const Precision& precision, int way, const VisitExact& visit) const {
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
    if (way == kAnyCount) {
      possible[axis] = counts_in(*this, bin.box, axis, type_of(precision));
    } else {
      possible[axis] = {count_by(*this, bin.box, axis, way)};
    }
  }
  // Where the number of points may be any of several, all of them may be others.
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
