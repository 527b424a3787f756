// The additions to deformable attention's grad_value.
#include "analysis/model/additions.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/numbers/rounded_real.h"
#include "analysis/operators/msda/element.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

constexpr const char* kCorners[] = {"y0,x0", "y0,x1", "y1,x0", "y1,x1"};

// How a compiler may evaluate a coordinate, and the fraction of it.
enum Variant : int {
  kWritten,
  kContracted,    // the coordinate's product and sum in one fused multiply-add
  kFusedFraction  // the coordinate's product fused with the subtraction of the cell
};

template <class Real>
Real coordinate(const Conventions& conventions, Variant variant, Real location, Real size) {
  const bool aligned = conventions.align_corners;
  if (variant != kWritten) return kernels::contracted_coordinate(conventions.dialect, aligned, location, size);
  // deformable_detr's formula is fused by definition; a compiler that does not contract rounds the product.
  if (conventions.dialect == MSDA_DEFORMABLE_DETR) return location * size - Real(0.5);
  return kernels::pixel_coordinate(conventions.dialect, aligned, location, size);
}

// Along one axis: the cell, whether the sample is skipped, and the weights of the lower and the upper pixel.
template <class Real>
struct Weights {
  int32_t low;
  bool sampled;
  Real by_side[2];
};

template <class Real>
Weights<Real> weights_along(const Conventions& conventions, Variant variant, double location, int32_t size) {
  const Real at = static_cast<Real>(location), sides = static_cast<Real>(size), one(1);
  const Real pixel = coordinate(conventions, variant, at, sides);
  const auto axis =
      kernels::locate_pixel(conventions.dialect, conventions.padding, conventions.align_corners, pixel, size);
  Real fraction = axis.fraction;
  if (variant == kFusedFraction) fraction = fma(at, sides - one, -floor(pixel));
  return {axis.low, axis.sampled, {one - fraction, fraction}};
}

class MsdaAdditions final : public Additions {
 public:
  explicit MsdaAdditions(const MsdaCall& call) : call_(call) {}

  std::vector<std::string> factor_names() const override { return {"grad_output", "attention", "wy", "wx"}; }

  std::vector<FactorArithmetic> arithmetics() const override {
    const bool aligned = call_.conventions.align_corners, triton = call_.conventions.dialect == MSDA_MSDA_TRITON;
    std::vector<FactorArithmetic> all;
    const auto add = [&](msda_dtype type) {
      const FactorArithmetic written{"coordinates as written", type, kWritten};
      const FactorArithmetic contracted{"coordinates with fused multiply-adds", type, kContracted};
      const FactorArithmetic fused{"fractions with fused multiply-adds", type, kFusedFraction};
      // Compilers contract.
      if (aligned && triton) all.push_back(fused);
      if (!aligned) all.push_back(contracted);
      all.push_back(written);
    };
    add(call_.arithmetic());
    const msda_dtype stored = call_.value.dtype;
    if (arithmetic_of(stored) != stored) add(stored);
    return all;
  }

  KnownAdditions known(std::string_view kernel) const override {
    KnownAdditions known;
    known.products = {"(grad_output*attention)*(wy*wx)"};
    known.is_exact = arithmetic_of(call_.value.dtype) == call_.value.dtype;
    if (kernel == "msda_cuda_backward") {
      known.one_at_a_time = false;
      known.text =
          "this project's kernels sum the samples of a cell in runs of up to 32 before they add them, except in "
          "short calls of mode atomic";
    } else if (kernel == "msda_backward") {
      known.one_at_a_time = false;
      known.text = "this project's operator on the CPU adds one addend at a time in mode atomic only";
    } else if (call_.conventions.dialect == MSDA_MSDA_TRITON) {
      known.text = "msda-triton's kernel adds every addend by its own atomic addition";
      known.products = {"((grad_output*attention)*wy)*wx"};
    } else {
      known.text = "Deformable DETR's kernels add every addend by its own atomic addition";
    }
    return known;
  }

  int64_t family_count() const override { return call_.B * call_.M * call_.L; }

  std::vector<SharedAddend> addends(int64_t family, const FactorArithmetic& arithmetic) const override {
    const int64_t l = family % call_.L, m = family / call_.L % call_.M, b = family / call_.L / call_.M;
    const LevelSize& level = call_.levels[static_cast<size_t>(l)];
    const auto variant = static_cast<Variant>(arithmetic.variant);
    std::vector<SharedAddend> all;
    all.reserve(static_cast<size_t>(4 * call_.Q * call_.P));
    with_real(arithmetic.type, [&]<class Real>(Real) {
      for (int64_t q = 0; q < call_.Q; ++q) {
        for (int64_t p = 0; p < call_.P; ++p) {
          const SampleId sample{b, q, m, l, p};
          const auto along = [&](int axis) {
            return weights_along<Real>(call_.conventions, variant, sample.location(call_, axis), side_of(level, axis));
          };
          const auto x = along(0), y = along(1);
          if (!x.sampled || !y.sampled) continue;
          const CornerRows rows = corner_rows(call_.conventions, level, x.low, y.low);
          for (int32_t corner = 0; corner < 4; ++corner) {
            const int64_t s = rows[static_cast<size_t>(corner)];
            if (s < 0) continue;
            all.push_back({(b * call_.S + s) * call_.M + m,
                           sample.flat(call_),
                           corner,
                           {sample.attention(call_), double(y.by_side[corner / 2]), double(x.by_side[corner % 2])}});
          }
        }
      }
    });
    std::ranges::stable_sort(all, {}, &SharedAddend::target);
    return all;
  }

  std::vector<int64_t> elements_of(int64_t target) const override {
    std::vector<int64_t> elements;
    for (int64_t d = 0; d < call_.D; ++d) elements.push_back(target * call_.D + d);
    return elements;
  }

  void channel_factors(int64_t sample, std::span<double> factors) const override {
    const int64_t row = sample_of(sample).grad_output_row(call_);
    for (size_t d = 0; d < factors.size(); ++d) factors[d] = call_.grad_output.at(row + static_cast<int64_t>(d));
  }

  int64_t launch_index(int64_t sample) const override { return sample_of(sample).q; }
  const char* launch_index_name() const override { return MsdaDimension::kQuery.name(); }

  std::string name_of(const SharedAddend& addend) const override {
    const SampleId sample = sample_of(addend.sample);
    return fmt::format("query {}, point {}, corner {}", sample.q, sample.p, kCorners[addend.corner]);
  }

 private:
  SampleId sample_of(int64_t sample) const { return call_.sample_of(MsdaGradient::kAttentionWeights, sample); }

  const MsdaCall& call_;
};

}  // namespace

std::unique_ptr<Additions> MsdaCall::additions(Gradient gradient) const {
  if (!gradient.scattered()) return nullptr;
  return std::make_unique<MsdaAdditions>(*this);
}

}  // namespace msda::analysis
