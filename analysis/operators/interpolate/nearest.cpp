// Mode nearest: each pixel adds up the output pixels between two ends, and rounding may move either end by one.
#include <algorithm>
#include <cmath>

#include "analysis/operators/interpolate/call.h"
#include "analysis/rounding.h"

namespace msda::analysis {
namespace {

// A landing's region says by how much its ends differ from the exact ones: -1, 0 or 1 each.
int32_t region_of(int64_t first, int64_t end) { return static_cast<int32_t>((first + 1) * 3 + end + 1); }

Readers moved(const Readers& exact, int32_t region) {
  return {exact.first + region / 3 - 1, exact.end + region % 3 - 1};
}

}  // namespace

Axes InterpolateCall::axes(const ElementId& id) const {
  Axes all;
  if (!is_nearest()) return all;
  int64_t rest = to_.at(id.flat).place;
  for (int axis = 0; axis < axes_count; ++axis) {
    const auto size = static_cast<int32_t>(sides[axis].in);
    all.push_back({static_cast<double>(rest % size), size, MSDA_FLOAT64, axis});
    rest /= size;
  }
  return all;
}

std::optional<int64_t> InterpolateCall::at_boundary(const Resized& side, int64_t boundary,
                                                    const Precision& precision) const {
  if (boundary <= 0 || boundary >= side.in) return std::nullopt;  // indices are clipped there
  const int64_t first = readers(side, boundary).first;
  std::optional<int64_t> nearest;
  double least = INFINITY;
  for (const int64_t output : {first, first - 1}) {
    if (output < 0 || output >= side.out) continue;
    const Coordinate at = coordinate_of(side, output, precision);
    const double distance = std::abs(at.exact - static_cast<double>(boundary));
    if (distance > at.error || distance >= least) continue;
    least = distance;
    nearest = output;
  }
  return nearest;
}

Coordinate InterpolateCall::coordinate(const Conventions&, const Axis& axis, const Precision& given) const {
  const Precision precision = coordinate_precision(given);
  const Resized& side = sides[axis.number];
  const auto pixel = static_cast<int64_t>(axis.location);
  auto output = at_boundary(side, pixel, precision);
  if (!output) output = at_boundary(side, pixel + 1, precision);
  return coordinate_of(side, output.value_or(readers(side, pixel).first), precision);
}

Landings InterpolateCall::landings(const Conventions&, const Axis& axis, const Precision& given) const {
  const Precision precision = coordinate_precision(given);
  const Resized& side = sides[axis.number];
  const auto pixel = static_cast<int64_t>(axis.location);
  const Readers exact = readers(side, pixel);
  const auto lower = at_boundary(side, pixel, precision), upper = at_boundary(side, pixel + 1, precision);
  const auto cell = [&](int64_t output, const Readers& read) {
    return static_cast<int32_t>(output < read.first ? pixel - 1 : output >= read.end ? pixel + 1 : pixel);
  };
  Landings result;
  const auto add = [&](int64_t first, int64_t end) {
    const Readers read{exact.first + first, exact.end + end};
    Landing landing{};
    landing.low = lower ? cell(*lower, read) : upper ? cell(*upper, read) : static_cast<int32_t>(pixel);
    landing.region = region_of(first, end);
    if (std::ranges::find(result, landing) == result.end()) result.push_back(landing);
  };
  // An output pixel at an end belongs to the next cell, or no longer to it.
  const int64_t first = !lower ? 0 : *lower >= exact.first ? 1 : -1;
  const int64_t end = !upper ? 0 : *upper < exact.end ? -1 : 1;
  add(0, 0);
  add(first, 0);
  add(0, end);
  add(first, end);
  return result;
}

std::vector<Evaluation> InterpolateCall::evaluations(const Conventions& of, const Axis& axis, msda_dtype type) const {
  const Resized& side = sides[axis.number];
  const auto pixel = static_cast<int64_t>(axis.location);
  const Readers exact = readers(side, pixel);
  const FactorArithmetic by{"", type, kWritten};
  const auto from_forward = [&](int64_t boundary, int64_t about) {
    if (boundary <= 0) return int64_t{0};
    if (boundary >= side.in) return side.out;
    int64_t first = std::max<int64_t>(about - 2, 0);
    while (first < std::min(about + 2, side.out) &&
           std::floor(computed_coordinate(side, first, by)) < static_cast<double>(boundary))
      ++first;
    return first;
  };
  const Landings all = landings(of, axis, Precision::of(type));
  const auto place = [&](int64_t first, int64_t end) {
    Landing landing{};
    landing.region =
        region_of(std::clamp<int64_t>(first - exact.first, -1, 1), std::clamp<int64_t>(end - exact.end, -1, 1));
    const auto same = std::ranges::find(all, landing);
    return same == all.end() ? all.front() : *same;
  };
  const Precision precision = coordinate_precision(Precision::of(type));
  auto output = at_boundary(side, pixel, precision);
  if (!output) output = at_boundary(side, pixel + 1, precision);
  const int64_t near = output.value_or(exact.first);
  const double coordinate = computed_coordinate(side, near, by);
  // PyTorch's kernels for GPUs compute the ends themselves.
  std::vector<Evaluation> ways{
      {"as written", coordinate, place(from_forward(pixel, exact.first), from_forward(pixel + 1, exact.end))},
      {"by the inverse ratio", coordinate, place(end_by_inverse(side, pixel), end_by_inverse(side, pixel + 1))}};
  if (type == MSDA_FLOAT64)
    ways.push_back({"without rounding", coordinate_of(side, near, precision).exact, all.front()});
  return ways;
}

Element InterpolateCall::element(const Conventions& of, const ElementId& id, const Place& place,
                                 const Precisions& precisions, const Reduction* reduction, Cache& cache) const {
  if (!is_nearest()) return ScatterCall::element(of, id, place, precisions, reduction, cache);
  const auto at = to_.at(id.flat);
  Readers along[3] = {{0, 1}, {0, 1}, {0, 1}};
  int64_t rest = at.place;
  for (int axis = 0; axis < axes_count; ++axis) {
    const Readers exact = readers(sides[axis], rest % sides[axis].in);
    along[axis] = moved(exact, place[static_cast<size_t>(axis)].region);
    rest /= sides[axis].in;
  }
  SumBound sum;
  Element element;
  for (int64_t z = along[2].first; z < along[2].end; ++z) {
    for (int64_t y = along[1].first; y < along[1].end; ++y) {
      for (int64_t x = along[0].first; x < along[0].end; ++x) {
        const int64_t pixel = (z * sides[1].out + y) * sides[0].out + x;
        double number = grad_output.at(from_.flat({pixel, at.channel}));
        if (reduction != nullptr) number = reduction->round(kGradOutput, number);
        sum.add(number, 0, 1);
      }
    }
  }
  element.value = sum.sum();
  element.terms = sum.terms();
  element.cancelled = element.largest_partial = sum.magnitude();
  element.from_rounding = sum.bound(precisions.rest);
  element.certain = sum.certain(precisions.rest);
  return element;
}

}  // namespace msda::analysis
