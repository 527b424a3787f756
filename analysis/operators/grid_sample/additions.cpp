// The additions to grid_sample's grad_input.
#include "analysis/model/additions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "analysis/numbers/rounded_real.h"
#include "analysis/operators/grid_sample/call.h"
#include "kernels/grid_point.h"

namespace msda::analysis {
namespace {

// How a compiler may evaluate a coordinate, and the weights of it.
enum Variant : int {
  kWritten,
  kContracted,      // the coordinate's product and sum in one fused multiply-add
  kFusedDifference  // the coordinate's product fused with the subtraction of the cell
};

// PyTorch computes the coordinate in float32 even for types of 16 bits, and rounds it once.
template <class Real>
using CoordinateReal = std::conditional_t<std::is_same_v<Real, double>, double, float>;

// The weights of the pixels that are read along one axis. They are the distances to the pixel on the other side, which
// are rounded otherwise than 1 minus a fraction is, left of the image.
template <class Real>
struct Along {
  kernels::GridTaps<Real> taps;
  bool sampled = true;

  Along(const GridSampleCall& call, const msda_grid_sample_call& conventions, Variant variant, double at, int axis) {
    using Wide = CoordinateReal<Real>;
    const int32_t size = call.sides[axis];
    const Wide coordinate = static_cast<Wide>(at), one(1), half(0.5), sides = static_cast<Wide>(size);
    Wide pixel = kernels::grid_pixel(conventions, coordinate, size);
    if (variant != kWritten && !call.align_corners) pixel = kernels::fma(coordinate + one, sides, -one) * half;
    const Wide moved = kernels::pad(conventions, pixel, size).pixel;
    const Real padded = static_cast<Real>(moved);
    const bool is_nearest = call.interpolation == MSDA_NEAREST;
    const Real low = is_nearest ? nearest_of(padded) : floor_of(padded);
    sampled = std::abs(double(padded)) < 5e8 || call.interpolation == MSDA_BICUBIC;
    if (!sampled || !(std::abs(double(low)) < 5e8)) {
      sampled = false;
      return;
    }
    const auto cell = static_cast<int32_t>(double(low));
    taps = kernels::grid_taps(conventions, is_nearest ? Real(0) : padded - low, cell, size);
    if (call.interpolation == MSDA_BICUBIC && variant != kWritten) contract_cubic(padded - low);
    if (call.interpolation != MSDA_BILINEAR) return;
    const Real above = static_cast<Real>(double(cell) + 1);
    taps.weight[0] = above - padded;
    taps.weight[1] = padded - low;
    if (variant != kFusedDifference) return;
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

class GridAdditions final : public Additions {
 public:
  explicit GridAdditions(const GridSampleCall& call) : call_(call) {}

  std::vector<std::string> factor_names() const override {
    std::vector<std::string> names{"grad_output", "wx", "wy"};
    if (call_.axes_count == 3) names.push_back("wz");
    return names;
  }

  std::vector<FactorArithmetic> arithmetics() const override {
    std::vector<FactorArithmetic> all;
    const auto add = [&](msda_dtype type) {
      const bool aligned = call_.align_corners;
      const bool is_cubic = call_.interpolation == MSDA_BICUBIC;
      if (!aligned || is_cubic) all.push_back({"coordinates with fused multiply-adds", type, kContracted});
      all.push_back({"coordinates as written", type, kWritten});
      const bool products = aligned && call_.padding == MSDA_GRID_ZEROS && call_.interpolation == MSDA_BILINEAR;
      if (products) all.push_back({"weights with fused multiply-adds", type, kFusedDifference});
    };
    // PyTorch's kernels compute in the type of the tensors.
    const msda_dtype stored = call_.input.dtype;
    if (arithmetic_of(stored) != stored) add(stored);
    add(call_.arithmetic());
    return all;
  }

  KnownAdditions known(std::string_view) const override {
    KnownAdditions known;
    known.text = "PyTorch's kernels add every addend by its own atomic addition, a thread one channel after the other";
    const bool is_cubic = call_.interpolation == MSDA_BICUBIC;
    known.is_exact = arithmetic_of(call_.input.dtype) == call_.input.dtype;
    const bool volume = call_.axes_count == 3;
    known.products = {is_cubic ? "(grad_output*wx)*wy" : volume ? "grad_output*((wx*wy)*wz)" : "grad_output*(wx*wy)"};
    return known;
  }

  int64_t family_count() const override { return call_.N; }

  std::vector<SharedAddend> addends(int64_t family, const FactorArithmetic& arithmetic) const override {
    std::vector<SharedAddend> all;
    const msda_grid_sample_call conventions = abi_call(call_).call;
    with_real(arithmetic.type, [&]<class Real>(Real) {
      for (int64_t at = 0; at < call_.samples; ++at) {
        add_sample<Real>(conventions, static_cast<Variant>(arithmetic.variant), family, at, all);
      }
    });
    std::ranges::stable_sort(all, {}, &SharedAddend::target);
    return all;
  }

  std::vector<int64_t> elements_of(int64_t target) const override {
    std::vector<int64_t> elements;
    for (int64_t c = 0; c < call_.C; ++c) {
      elements.push_back(call_.input_of(target / call_.pixels, c, target % call_.pixels));
    }
    return elements;
  }

  void channel_factors(int64_t sample, std::span<double> factors) const override {
    const GridSampleCall::SampleId id{sample / call_.samples, sample % call_.samples};
    for (size_t c = 0; c < factors.size(); ++c) {
      factors[c] = call_.grad_output.at(call_.grad_output_of(id, static_cast<int64_t>(c)));
    }
  }

  int64_t launch_index(int64_t sample) const override { return sample % call_.samples; }
  const char* launch_index_name() const override { return GridSampleDimension::kSample.name(); }

  std::string name_of(const SharedAddend& addend) const override {
    const Tensor grid_of_batch{nullptr, call_.grid.dtype,
                               Index(call_.grid.shape.begin() + 1, call_.grid.shape.end() - 1)};
    const int along = kernels::taps_along(call_.interpolation), tap = addend.corner;
    const std::string plane = fmt::format("y{},x{}", tap / along % along, tap % along);
    return fmt::format("sample ({}), pixel tap {}",
                       fmt::join(grid_of_batch.index_of(addend.sample % call_.samples), ", "),
                       call_.axes_count == 3 ? fmt::format("z{},{}", tap / along / along, plane) : plane);
  }

 private:
  template <class Real>
  void add_sample(const msda_grid_sample_call& conventions, Variant variant, int64_t n, int64_t at,
                  std::vector<SharedAddend>& all) const {
    const int axes = call_.axes_count, along = kernels::taps_along(call_.interpolation);
    const int64_t sample = n * call_.samples + at;
    std::vector<Along<Real>> by_axis;
    for (int axis = 0; axis < axes; ++axis) {
      by_axis.emplace_back(call_, conventions, variant, call_.grid.at(sample * axes + axis), axis);
      if (!by_axis.back().sampled) return;
    }
    for (int32_t number = 0; number < (axes == 3 ? along * along : along) * along; ++number) {
      const int tap[3] = {number % along, number / along % along, number / along / along};
      SharedAddend addend{0, sample, number, {1, 1, 1}};
      bool inside = true;
      for (int axis = axes - 1; axis >= 0; --axis) {
        const auto& taps = by_axis[static_cast<size_t>(axis)].taps;
        inside = inside && taps.pixel[tap[axis]] >= 0;
        addend.target = addend.target * call_.sides[axis] + taps.pixel[tap[axis]];
        addend.factors[static_cast<size_t>(axis)] = double(taps.weight[tap[axis]]);
      }
      if (!inside) continue;
      addend.target += n * call_.pixels;
      all.push_back(addend);
    }
  }

  const GridSampleCall& call_;
};

}  // namespace

std::unique_ptr<Additions> GridSampleCall::additions(Gradient gradient) const {
  if (!gradient.scattered()) return nullptr;
  return std::make_unique<GridAdditions>(*this);
}

}  // namespace msda::analysis
