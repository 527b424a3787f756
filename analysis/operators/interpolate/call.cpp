#include "analysis/operators/interpolate/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace msda::analysis {
namespace {

constexpr const char* kLinear[] = {"linear", "bilinear", "trilinear"};  // by the number of axes

}  // namespace

std::optional<ResizeMode> resize_mode_named(std::string_view name, int axes) {
  if (name == "nearest") return ResizeMode::kNearest;
  if (name == "nearest-exact") return ResizeMode::kNearestExact;
  if (name == "bicubic" && axes == 2) return ResizeMode::kCubic;
  return name == kLinear[axes - 1] ? std::optional(ResizeMode::kLinear) : std::nullopt;
}

const char* InterpolateCall::mode_name() const {
  if (mode == ResizeMode::kLinear) return kLinear[axes_count - 1];
  return mode == ResizeMode::kNearest ? "nearest" : mode == ResizeMode::kNearestExact ? "nearest-exact" : "bicubic";
}

void InterpolateCall::take_sizes() {
  const size_t rank = grad_output.shape.size();
  axes_count = static_cast<int>(rank) - 2;
  N = grad_output.shape[0];
  C = grad_output.shape[1];
  PlaceLayout from{1, 1, N * C, 1, 1}, to = from;
  ScatterNames names{"output pixel", corner_names(), {}, nullptr};
  for (int axis = 0; axis < axes_count; ++axis) {
    sides[axis].out = grad_output.shape[rank - 1 - static_cast<size_t>(axis)];
    from.minor *= sides[axis].out;
    to.minor *= sides[axis].in;
    if (!is_nearest()) names.weights.push_back(fmt::format("w{}", axis_name(static_cast<size_t>(axis))));
  }
  set_layouts(from, to, std::move(names));
}

Index InterpolateCall::shape_of(Gradient) const {
  Index shape{N, C};
  for (int axis = axes_count - 1; axis >= 0; --axis) shape.push_back(sides[axis].in);
  return shape;
}

// Coordinates are computed in float32 at least, and those of mode nearest at most.
Precision InterpolateCall::coordinate_precision(const Precision& rest) const {
  const Precision float32 = Precision::of(MSDA_FLOAT32);
  return is_nearest() || rest.bits < float32.bits ? float32 : rest;
}

std::vector<std::string> InterpolateCall::corner_names() const {
  if (is_nearest()) return {""};
  const int along = mode == ResizeMode::kCubic ? 4 : 2;
  int count = 1;
  for (int axis = 0; axis < axes_count; ++axis) count *= along;
  std::vector<std::string> names;
  for (int number = 0; number < count; ++number) {
    std::string name = fmt::format("x{}", number % along);
    if (axes_count > 1) name = fmt::format("y{},", number / along % along) + name;
    if (axes_count > 2) name = fmt::format("z{},", number / along / along) + name;
    names.push_back(name);
  }
  return names;
}

std::vector<FactorArithmetic> InterpolateCall::factor_arithmetics() const {
  if (is_nearest()) {
    return {{"ends by the inverse ratio", arithmetic(), kInverse}, {"coordinates as written", arithmetic(), kWritten}};
  }
  std::vector<FactorArithmetic> all{{"coordinates as written", arithmetic(), kWritten}};
  if (!align_corners) all.push_back({"coordinates with fused multiply-adds", arithmetic(), kContracted});
  return all;
}

FactorArithmetic InterpolateCall::exact_arithmetic() const {
  return {"in float64", MSDA_FLOAT64, is_nearest() ? kUnrounded : kWritten};
}

void InterpolateCall::send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const {
  ResizeTaps along[3];
  int64_t rest = sample;
  for (int axis = 0; axis < axes_count; ++axis) {
    const Resized& side = sides[axis];
    const int64_t output = rest % side.out;
    rest /= side.out;
    if (is_nearest()) {
      const auto pixel = nearest_pixel(side, output, static_cast<Variant>(by.variant));
      if (!pixel) return;
      along[axis] = {{*pixel, 1, 0}};
      continue;
    }
    along[axis] = taps(side, computed_coordinate(side, output, by), 0, 0);
    for (ResizeTap& tap : along[axis]) tap.weight = rounded_to(tap.weight, by.type);
  }
  Contribution contribution{0, sample};
  for (int axis = axes_count; axis < 3; ++axis) along[axis] = {{0, 1, 0}};
  for (const ResizeTap& z : along[2]) {
    for (const ResizeTap& y : along[1]) {
      for (const ResizeTap& x : along[0]) {
        contribution.target = (z.pixel * sides[1].in + y.pixel) * sides[0].in + x.pixel;
        contribution.factors = {x.weight, y.weight, z.weight};
        visit(contribution);
        ++contribution.corner;
      }
    }
  }
}

void InterpolateCall::send_exactly(int64_t from_place, const Precision& coordinates, int,
                                   const VisitExact& visit) const {
  ResizeTaps along[3];
  int64_t rest = from_place;
  for (int axis = 0; axis < axes_count; ++axis) {
    const Resized& side = sides[axis];
    const int64_t output = rest % side.out;
    rest /= side.out;
    const auto [exact, error] = coordinate_of(side, output, coordinates);
    along[axis] = is_nearest() ? nearest_taps(side, output) : taps(side, exact, error, coordinates.unit);
  }
  for (int axis = axes_count; axis < 3; ++axis) along[axis] = {{0, 1, 0}};
  for (const ResizeTap& z : along[2]) {
    for (const ResizeTap& y : along[1]) {
      for (const ResizeTap& x : along[0]) {
        const double weight = x.weight * y.weight * z.weight;
        const double farthest =
            (std::abs(x.weight) + x.error) * (std::abs(y.weight) + y.error) * (std::abs(z.weight) + z.error);
        visit({(z.pixel * sides[1].in + y.pixel) * sides[0].in + x.pixel, weight, farthest - std::abs(weight),
               x.is_signed() && y.is_signed() && z.is_signed()});
      }
    }
  }
}

std::vector<int> InterpolateCall::cuts_of(std::string_view) const {
  std::vector<int> all{0, 1};
  all.resize(2 + static_cast<size_t>(axes_count), -1);
  return all;
}

Slices InterpolateCall::slices(const CallSizes& sizes_given) const {
  if (sizes_given.heads) throw std::invalid_argument("interpolate has no heads");
  if (sizes_given.queries) throw std::invalid_argument("interpolate has no queries");
  Tensor of_batch{nullptr, grad_output.dtype, grad_output.shape};
  of_batch.shape[0] = 1;
  return {sizes_given.batch.value_or(N), with_tensors({of_batch})};
}

std::shared_ptr<const Call> InterpolateCall::with_tensors(std::vector<Tensor> tensors) const {
  auto call = std::make_shared<InterpolateCall>(*this);
  call->grad_output = tensors[0];
  call->take_sizes();
  return call;
}

}  // namespace msda::analysis
