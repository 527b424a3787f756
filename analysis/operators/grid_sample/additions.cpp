// The addends of grid_sample's gradients: how PyTorch's kernels add to grad_input, and what a kernel sums for
// grad_grid.
#include <algorithm>
#include <type_traits>

#include "analysis/numbers/rounded_real.h"
#include "analysis/operators/grid_sample/call.h"
#include "analysis/operators/sampling/reads.h"
#include "kernels/grid_point.h"

namespace msda::analysis {
namespace {

// PyTorch computes the coordinate in float32 even for types of 16 bits, and rounds it once.
template <class Real>
using CoordinateReal = std::conditional_t<std::is_same_v<Real, double>, double, float>;

// The weights of the pixels that are read along one axis. They are the distances to the pixel on the other side, which
// are rounded otherwise than 1 minus a fraction is, left of the image.
template <class Real>
struct Along {
  kernels::GridTaps<Real> taps;
  bool sampled = true;

  Along(const GridSampleCall& call, int variant, const Axis& axis) {
    using Wide = CoordinateReal<Real>;
    constexpr auto kWritten = GridSampleCall::kWritten;
    const int32_t size = axis.size;
    const Wide coordinate = static_cast<Wide>(axis.location), one(1), half(0.5), sides = static_cast<Wide>(size);
    Wide pixel = kernels::grid_pixel(call, coordinate, size);
    if (variant != kWritten && !call.align_corners) pixel = kernels::fma(coordinate + one, sides, -one) * half;
    const Wide moved = kernels::pad(call, pixel, size).pixel;
    const Real padded = static_cast<Real>(moved);
    const bool is_nearest = call.interpolation == MSDA_NEAREST;
    const Real low = is_nearest ? nearest_of(padded) : floor_of(padded);
    sampled = std::abs(double(padded)) < 5e8 || call.interpolation == MSDA_BICUBIC;
    if (!sampled || !(std::abs(double(low)) < 5e8)) {
      sampled = false;
      return;
    }
    const auto cell = static_cast<int32_t>(double(low));
    taps = kernels::grid_taps(call, is_nearest ? Real(0) : padded - low, cell, size);
    if (call.interpolation == MSDA_BICUBIC && variant != kWritten) contract_cubic(padded - low);
    if (call.interpolation != MSDA_BILINEAR) return;
    const Real above = static_cast<Real>(double(cell) + 1);
    taps.weight[0] = above - padded;
    taps.weight[1] = padded - low;
    if (variant != GridSampleCall::kFusedDifference) return;
    // t*(size - 1) with align_corners: the product goes into each of the differences.
    const Wide t = (coordinate + one) * half;
    taps.weight[0] = static_cast<Real>(kernels::fma(-t, sides - one, static_cast<Wide>(cell) + one));
    taps.weight[1] = static_cast<Real>(kernels::fma(t, sides - one, -static_cast<Wide>(cell)));
  }

 private:
  // Keys' polynomials with fused multiply-adds.
  void contract_cubic(Real fraction) {
    using kernels::fma;
    const Real a = static_cast<Real>(-0.75), one(1), two(2), three(3);
    const Real rest = one - fraction;
    const auto inner = [&](Real x) { return fma(fma(a + two, x, -(a + three)) * x, x, one); };
    const auto outer = [&](Real x) {
      return fma(fma(fma(a, x, -(static_cast<Real>(5) * a)), x, static_cast<Real>(8) * a), x,
                 -(static_cast<Real>(4) * a));
    };
    const Real weights[] = {outer(fraction + one), inner(fraction), inner(rest), outer(rest + one)};
    std::copy_n(weights, 4, taps.weight);
  }

  static Real floor_of(Real x) { return static_cast<Real>(std::floor(double(x))); }
  static Real nearest_of(Real x) { return static_cast<Real>(std::nearbyint(double(x))); }
};

// Returns what a kernel adds up for an element of grad_grid: a product for each channel and pixel.
template <class Real>
Addends grid_addends(const GridSampleCall& call, const ElementId& id, const Place& place) {
  const int64_t sample = call.sample_of(id.gradient, id.flat);
  const int axis = call.axis_of(id.gradient, id.flat);
  const SampledImage image = call.image_of(call.family_of_sample(sample));
  Addends addends;
  addends.scale = place[static_cast<size_t>(axis)].slope;
  if (call.interpolation == MSDA_NEAREST) return addends;
  const Reads all = reads(call, image, place, axis);
  for (int64_t c = 0; c < call.C; ++c) {
    const Real go = static_cast<Real>(call.grad_output.at(call.output_element(sample, c)));
    for (const Read& read : all) {
      if (read.pixel < 0) continue;
      const Real v = static_cast<Real>(call.image.at(call.image_element(image.place_of(read.pixel), c)));
      const Real product = v * static_cast<Real>(read.weight) * go;
      addends.values.push_back(static_cast<double>(product));
    }
  }
  return addends;
}

}  // namespace

Taps GridSampleCall::computed_taps(const Axis& axis, msda_dtype type, int variant) const {
  if (variant == kOurKernels) return taps(evaluations(axis, type).front().landing, axis.size);
  Taps computed;
  with_real(type, [&]<class Real>(Real) {
    const Along<Real> along(*this, variant, axis);
    for (int i = 0; along.sampled && i < taps_along(); ++i) {
      computed.push_back({along.taps.pixel[i], double(along.taps.weight[i])});
    }
  });
  return computed;
}

Addends GridSampleCall::addends(const ElementId& id, Cache& cache) const {
  if (id.gradient.scattered()) return {image_addends(id.flat, cache), 1};
  Place place;
  for (const Axis& axis : axes(id)) place.push_back(evaluations(axis, arithmetic()).front().landing);
  return arithmetic() == MSDA_FLOAT64 ? grid_addends<double>(*this, id, place) : grid_addends<float>(*this, id, place);
}

std::vector<SharedFactor> GridSampleCall::shared_factors() const {
  std::vector<SharedFactor> weights{{"wx", 0}, {"wy", 1}};
  if (axes_count == 3) weights.push_back({"wz", 2});
  return weights;
}

std::vector<FactorArithmetic> GridSampleCall::factor_arithmetics() const {
  const bool is_cubic = interpolation == MSDA_BICUBIC;
  std::vector<FactorArithmetic> all;
  const auto add = [&](msda_dtype type) {
    if (!align_corners || is_cubic) all.push_back({"coordinates with fused multiply-adds", type, kContracted});
    all.push_back({"coordinates as written", type, kWritten});
    const bool products = align_corners && padding == MSDA_GRID_ZEROS && interpolation == MSDA_BILINEAR;
    if (products) all.push_back({"weights with fused multiply-adds", type, kFusedDifference});
  };
  // PyTorch's kernels compute in the type of the tensors.
  if (arithmetic_of(image.dtype) != image.dtype) add(image.dtype);
  add(arithmetic());
  return all;
}

KnownAdditions GridSampleCall::known(std::string_view) const {
  KnownAdditions known;
  known.text = "PyTorch's kernels add every addend by its own atomic addition, a thread one channel after the other";
  known.is_exact = arithmetic_of(image.dtype) == image.dtype;
  known.products = {interpolation == MSDA_BICUBIC ? "(grad_output*wx)*wy"
                    : axes_count == 3             ? "grad_output*((wx*wy)*wz)"
                                                  : "grad_output*(wx*wy)"};
  return known;
}

}  // namespace msda::analysis
