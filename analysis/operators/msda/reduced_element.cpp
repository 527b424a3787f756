// Elements of gradients whose inner steps are rounded to fewer bits.
#include <array>
#include <cmath>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/msda/call.h"
#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

// Steps behind the inputs. The rounding of such a number depends on its bits, so the error that coordinates and earlier
// roundings bring is carried from step to step.
constexpr Steps kInnerSteps = kInterpolationWeights | kSampledValue | kWeightedGradOutput | kAddends;

Uncertain product(const Uncertain& a, const Uncertain& b) {
  return {a.value * b.value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error};
}

// Returns x with the error that so many roundings of `unit` add.
Uncertain loosened(Uncertain x, double roundings, double unit) {
  x.error += roundings * unit * std::abs(x.value);
  return x;
}

// Returns what each corner's value is multiplied by; corners: (y0,x0) (y0,x1) (y1,x0) (y1,x1).
std::array<Uncertain, 4> corner_factors(int axis, const Landing& x, const Landing& y) {
  const Uncertain right{x.fraction, x.error}, left{1 - x.fraction, x.error};
  const Uncertain below{y.fraction, y.error}, above{1 - y.fraction, y.error};
  const auto negative = [](const Uncertain& u) { return Uncertain{-u.value, u.error}; };
  if (axis < 0) {
    return {product(above, left), product(above, right), product(below, left), product(below, right)};
  }
  if (axis == 0) return {negative(above), above, negative(below), below};
  return {negative(left), negative(right), left, right};
}

// Returns an element of a sample's gradient, for narrowings with inner steps.
Element reduced_sample_element(const MsdaCall& call, const ElementId& id, const Place& place,
                               const Precision& precision, const Narrowing& narrowing) {
  constexpr double kWeightRoundings = 4, kSampleRoundings = 4;
  const double unit = Precision::of(call.arithmetic()).unit;
  const int64_t sample = call.sample_of(id.gradient, id.flat);
  const int axis = call.axis_of(id.gradient, id.flat);
  const bool weighs = axis >= 0 && narrowing.rounds(kWeightedGradOutput);
  const double attention = axis < 0 ? 1 : narrowing.round(kAttentionWeights, call.factor_of(sample));
  const double slope = axis < 0 ? 1 : place[static_cast<size_t>(axis)].slope,
               scale = weighs ? slope : attention * slope;
  const SampledImage image = call.image_of(call.family_of_sample(sample));
  const Reads all = reads(call, image, place, -1);
  auto factors = corner_factors(axis, place[0], place[1]);
  for (Uncertain& factor : factors) {
    factor = narrowing.round(kInterpolationWeights, loosened(factor, kWeightRoundings, unit));
  }
  Element element;
  if (all.empty()) return element;
  SumBound sum;
  for (int64_t d = 0; d < call.D; ++d) {
    Uncertain sampled;
    for (size_t corner = 0; corner < 4; ++corner) {
      if (all[corner].pixel < 0) continue;
      const double v = call.image.at(call.image_element(image.place_of(all[corner].pixel), d));
      const Uncertain part =
          loosened(product(factors[corner], {narrowing.round(kValue, v), 0}), kSampleRoundings, unit);
      sampled = {sampled.value + part.value, sampled.error + part.error};
    }
    Uncertain go{narrowing.round(kGradOutput, call.grad_output.at(call.output_element(sample, d))), 0};
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

}  // namespace

Uncertain MsdaCall::narrowed_addend(const Narrowing& narrowing, const Uncertain& exact_weight, double go,
                                    double attention) const {
  constexpr double kWeightRoundings = 4, kProductRoundings = 3;
  const double unit = Precision::of(arithmetic()).unit;
  Uncertain weight = exact_weight;
  if (narrowing.rounds(kInterpolationWeights)) {
    weight = narrowing.round(kInterpolationWeights, loosened(weight, kWeightRoundings, unit));
  }
  Uncertain weighted{narrowing.round(kGradOutput, go) * narrowing.round(kAttentionWeights, attention), 0};
  if (narrowing.rounds(kWeightedGradOutput)) {
    weighted = narrowing.round(kWeightedGradOutput, loosened(weighted, 1, unit));
  }
  const Uncertain addend = product(weight, weighted);
  return narrowing.rounds(kAddends) ? narrowing.round(kAddends, loosened(addend, kProductRoundings, unit)) : addend;
}

Element MsdaCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                          const Narrowing* narrowing, Cache& cache) const {
  if (!id.gradient.scattered() && narrowing != nullptr && narrowing->rounds(kInnerSteps)) {
    return reduced_sample_element(*this, id, place, precisions.rest, *narrowing);
  }
  return SamplingCall::element(id, place, precisions, narrowing, cache);
}

}  // namespace msda::analysis
