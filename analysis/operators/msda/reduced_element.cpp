#include "analysis/operators/msda/reduced_element.h"

#include <array>
#include <cmath>

#include "analysis/numbers/rounding.h"

namespace msda::analysis {
namespace {

Uncertain product(const Uncertain& a, const Uncertain& b) {
  return {a.value * b.value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error};
}

// Returns x with the error that so many roundings of `unit` add.
Uncertain loosened(Uncertain x, double roundings, double unit) {
  x.error += roundings * unit * std::abs(x.value);
  return x;
}

// Returns what each corner's value is multiplied by; corners: (y0,x0) (y0,x1) (y1,x0) (y1,x1).
std::array<Uncertain, 4> corner_factors(Gradient gradient, int axis, const Landing& x, const Landing& y) {
  const Uncertain right{x.fraction, x.error}, left{1 - x.fraction, x.error};
  const Uncertain below{y.fraction, y.error}, above{1 - y.fraction, y.error};
  const auto negative = [](const Uncertain& u) { return Uncertain{-u.value, u.error}; };
  if (gradient == MsdaGradient::kAttentionWeights) {
    return {product(above, left), product(above, right), product(below, left), product(below, right)};
  }
  if (axis == 0) return {negative(above), above, negative(below), below};
  return {negative(left), negative(right), left, right};
}

}  // namespace

Element reduced_sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis,
                               const Landing& x, const Landing& y, const CornerRows& rows, const Precision& precision,
                               const Narrowing& narrowing) {
  constexpr double kWeightRoundings = 4, kSampleRoundings = 4;
  const double unit = Precision::of(call.arithmetic()).unit;
  const bool weights = gradient == MsdaGradient::kAttentionWeights;
  const bool weighs = !weights && narrowing.rounds(kWeightedGradOutput);
  const double attention = weights ? 1 : narrowing.round(kAttentionWeights, sample.attention(call));
  const double slope = weights ? 1 : axis == 0 ? x.slope : y.slope, scale = weighs ? slope : attention * slope;
  auto factors = corner_factors(gradient, axis, x, y);
  for (Uncertain& factor : factors) {
    factor = narrowing.round(kInterpolationWeights, loosened(factor, kWeightRoundings, unit));
  }
  Element element;
  SumBound sum;
  for (int64_t d = 0; d < call.D; ++d) {
    Uncertain sampled;
    for (size_t corner = 0; corner < 4; ++corner) {
      if (rows[corner] < 0) continue;
      const double v = call.value.at(value_element(call, sample.b, rows[corner], sample.m, d));
      const Uncertain part =
          loosened(product(factors[corner], {narrowing.round(kValue, v), 0}), kSampleRoundings, unit);
      sampled = {sampled.value + part.value, sampled.error + part.error};
    }
    Uncertain go{narrowing.round(kGradOutput, call.grad_output.at(sample.grad_output_row(call) + d)), 0};
    if (weighs) go = narrowing.round(kWeightedGradOutput, loosened(product(go, {attention, 0}), 1, unit));
    const Uncertain addend =
        narrowing.round(kAddends, loosened(product(go, narrowing.round(kSampledValue, sampled)), 2, unit));
    sum.add(addend.value * scale, 0, at_least_1(scale) * at_least_1(go.value));
    element.from_coordinates += addend.error * std::abs(scale);
  }
  element.take_sum(sum, precision);
  element.cancelled = sum.magnitude();
  return element;
}

Uncertain reduced_addend(const Narrowing& narrowing, Uncertain weight, double grad_output, double attention,
                         double unit) {
  constexpr double kWeightRoundings = 4, kProductRoundings = 3;
  if (narrowing.rounds(kInterpolationWeights)) {
    weight = narrowing.round(kInterpolationWeights, loosened(weight, kWeightRoundings, unit));
  }
  Uncertain weighted{narrowing.round(kGradOutput, grad_output) * narrowing.round(kAttentionWeights, attention), 0};
  if (narrowing.rounds(kWeightedGradOutput)) {
    weighted = narrowing.round(kWeightedGradOutput, loosened(weighted, 1, unit));
  }
  const Uncertain addend = product(weight, weighted);
  return narrowing.rounds(kAddends) ? narrowing.round(kAddends, loosened(addend, kProductRoundings, unit)) : addend;
}

}  // namespace msda::analysis
