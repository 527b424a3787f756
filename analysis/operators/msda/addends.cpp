// The addends of a sample's gradients as our kernels sum them.
#include "analysis/operators/msda/element.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// Returns a sample's addends in the arithmetic of Real, exactly those that kernels/cpu/loops.cpp sums.
template <class Real>
Addends sample_addends_in(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis) {
  const LevelSize& level = call.levels[static_cast<size_t>(sample.l)];
  const auto locate = [&](int along) {
    return kernels::locate(call.conventions.dialect, call.conventions.padding, call.conventions.align_corners,
                           static_cast<Real>(sample.location(call, along)), side_of(level, along));
  };
  const auto x = locate(0), y = locate(1);
  Addends addends;
  if (!x.sampled || !y.sampled) return addends;
  const auto weights = kernels::corner_weights(y.fraction, x.fraction);
  const CornerRows rows = corner_rows(call.conventions, level, x.low, y.low);
  for (int64_t d = 0; d < call.D; ++d) {
    const auto v = [&](size_t corner) {
      return rows[corner] < 0
                 ? Real(0)
                 : static_cast<Real>(call.value.at(value_element(call, sample.b, rows[corner], sample.m, d)));
    };
    const Real factor = gradient == MsdaGradient::kAttentionWeights
                            ? kernels::interpolate(weights, v(0), v(1), v(2), v(3))
                        : axis == 0 ? kernels::slope_across(v(0), v(1), v(2), v(3), y.fraction)
                                    : kernels::slope_across(v(0), v(2), v(1), v(3), x.fraction);
    const Real product = static_cast<Real>(call.grad_output.at(sample.grad_output_row(call) + d)) * factor;
    addends.values.push_back(static_cast<double>(product));
  }
  if (gradient == MsdaGradient::kSamplingLocations) {
    addends.scale = sample.attention(call) * static_cast<double>(axis == 0 ? x.slope : y.slope);
  }
  return addends;
}

}  // namespace

Addends sample_addends(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis) {
  return call.arithmetic() == MSDA_FLOAT64 ? sample_addends_in<double>(call, sample, gradient, axis)
                                           : sample_addends_in<float>(call, sample, gradient, axis);
}

}  // namespace msda::analysis
