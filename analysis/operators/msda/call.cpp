#include "analysis/operators/msda/call.h"

#include <algorithm>

#include "analysis/operators/msda/element.h"
#include "analysis/operators/msda/landing.h"

namespace msda::analysis {
namespace {

ContributionCache& contributions_in(Cache& cache) { return static_cast<ContributionCache&>(cache); }

}  // namespace

Index MsdaCall::shape_of(Gradient gradient) const {
  if (gradient == MsdaGradient::kValue) return {B, S, M, D};
  Index shape{B, Q, M, L, P};
  if (gradient == MsdaGradient::kSamplingLocations) shape.push_back(2);
  return shape;
}

std::vector<NamedTensor> MsdaCall::inputs() const {
  return {{"value", value},
          {"sampling_locations", sampling_locations},
          {"attention_weights", attention_weights},
          {"grad_output", grad_output}};
}

msda_dtype MsdaCall::arithmetic() const {
  for (const Tensor* tensor : {&value, &sampling_locations, &attention_weights, &grad_output}) {
    if (tensor->dtype == MSDA_FLOAT64) return MSDA_FLOAT64;
  }
  return MSDA_FLOAT32;
}

SampleId MsdaCall::sample_of(Gradient gradient, int64_t flat) const {
  if (gradient == MsdaGradient::kSamplingLocations) flat /= 2;
  SampleId sample{};
  sample.p = flat % P;
  flat /= P;
  sample.l = flat % L;
  flat /= L;
  sample.m = flat % M;
  flat /= M;
  sample.q = flat % Q;
  sample.b = flat / Q;
  return sample;
}

int MsdaCall::axis_of(Gradient gradient, int64_t flat) const {
  return gradient == MsdaGradient::kSamplingLocations ? static_cast<int>(flat % 2) : 0;
}

PixelId MsdaCall::pixel_of(int64_t flat) const {
  PixelId pixel{};
  pixel.d = flat % D;
  flat /= D;
  pixel.m = flat % M;
  flat /= M;
  pixel.s = flat % S;
  pixel.b = flat / S;
  while (pixel.l + 1 < L && levels[static_cast<size_t>(pixel.l + 1)].start <= pixel.s) ++pixel.l;
  return pixel;
}

Axes MsdaCall::axes(const ElementId& id) const {
  if (id.gradient.scattered()) return {};
  const SampleId sample = sample_of(id.gradient, id.flat);
  const LevelSize& level = level_of(sample);
  const msda_dtype stored = sampling_locations.dtype;
  return {Axis{sample.location(*this, 0), level.width, stored}, Axis{sample.location(*this, 1), level.height, stored}};
}

Coordinate MsdaCall::coordinate(const Axis& axis, const Precision& precision) const {
  return pixel_coordinate(conventions, axis.location, axis.size, precision);
}

Landings MsdaCall::landings(const Axis& axis, const Precision& precision) const {
  return analysis::landings(conventions, axis.location, axis.size, precision);
}

std::vector<Evaluation> MsdaCall::evaluations(const Axis& axis, msda_dtype type) const {
  return analysis::evaluations(conventions, axis.location, axis.size, type);
}

std::unique_ptr<Cache> MsdaCall::new_cache() const { return std::make_unique<ContributionCache>(*this); }

Element MsdaCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                          const Narrowing* narrowing, Cache& cache) const {
  if (id.gradient.scattered()) {
    const PixelId pixel = pixel_of(id.flat);
    const auto contributions =
        contributions_in(cache).get(conventions, pixel.b, pixel.m, pixel.l, precisions.coordinates, narrowing);
    return pixel_element(*this, pixel, contributions->exact(pixel.s), precisions.rest, narrowing);
  }
  return sample_element(*this, sample_of(id.gradient, id.flat), id.gradient, axis_of(id.gradient, id.flat), place[0],
                        place[1], precisions.rest, narrowing);
}

Addends MsdaCall::addends(const ElementId& id, Cache& cache) const {
  if (!id.gradient.scattered()) {
    return sample_addends(*this, sample_of(id.gradient, id.flat), id.gradient, axis_of(id.gradient, id.flat));
  }
  const PixelId pixel = pixel_of(id.flat);
  const auto contributions =
      contributions_in(cache).get(conventions, pixel.b, pixel.m, pixel.l, Precision::of(arithmetic()));
  return {computed_addends(*this, pixel, contributions->computed(pixel.s)), 1};
}

// Returns elements of one batch, head and level, which need the same contributions.
int64_t MsdaCall::family_of(Gradient gradient, int64_t flat) const {
  const auto family = [&](int64_t b, int64_t m, int64_t l) { return (b * M + m) * L + l; };
  if (gradient.scattered()) {
    const PixelId pixel = pixel_of(flat);
    return family(pixel.b, pixel.m, pixel.l);
  }
  const SampleId sample = sample_of(gradient, flat);
  return family(sample.b, sample.m, sample.l);
}

std::vector<int64_t> MsdaCall::some_of_family(Gradient gradient, int64_t family, int64_t most) const {
  const int64_t l = family % L, m = family / L % M, b = family / L / M;
  const LevelSize& level = levels[static_cast<size_t>(l)];
  const int64_t all = gradient.scattered() ? int64_t{level.height} * level.width * D : Q * P;
  const int64_t count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * all / count;
    if (gradient.scattered()) {
      elements.push_back(value_element(*this, b, level.start + at / D, m, at % D));
    } else {
      const int64_t flat = SampleId{b, at / P, m, l, at % P}.flat(*this);
      elements.push_back(gradient == MsdaGradient::kSamplingLocations ? 2 * flat + i % 2 : flat);
    }
  }
  return elements;
}

// Returns the channels of a pixel.
int64_t MsdaCall::weights_of(Gradient gradient, int64_t flat) const { return gradient.scattered() ? flat / D : flat; }

Steps MsdaCall::input_steps(Gradient gradient) const {
  if (gradient == MsdaGradient::kValue) return kGradOutput | kAttentionWeights;
  if (gradient == MsdaGradient::kAttentionWeights) return kGradOutput | kValue;
  return kGradOutput | kAttentionWeights | kValue;
}

Steps MsdaCall::inner_steps(Gradient gradient) const {
  const Steps always = kInterpolationWeights | kAddends;
  if (gradient == MsdaGradient::kValue) return always | kWeightedGradOutput;
  if (gradient == MsdaGradient::kAttentionWeights) return always | kSampledValue;
  return always | kSampledValue | kWeightedGradOutput;
}

const char* MsdaCall::name_of(Step step) const {
  return step == kLocations ? "sampling_locations" : Call::name_of(step);
}

std::span<const Dimension> MsdaCall::dimensions() const {
  using Of = MsdaDimension;
  static constexpr Dimension kAll[] = {Of::kBatch, Of::kQuery, Of::kPixel, Of::kHead,
                                       Of::kLevel, Of::kPoint, Of::kAxis,  Of::kChannel};
  return kAll;
}

Coordinates MsdaCall::coordinates_of(Gradient gradient, int64_t flat) const {
  if (gradient == MsdaGradient::kValue) {
    const PixelId pixel = pixel_of(flat);
    return {pixel.b, -1, pixel.s, pixel.m, pixel.l, -1, -1, pixel.d};
  }
  const bool has_axes = gradient == MsdaGradient::kSamplingLocations;
  const SampleId sample = sample_of(gradient, flat);
  return {sample.b, sample.q, -1, sample.m, sample.l, sample.p, has_axes ? flat % 2 : -1, -1};
}

}  // namespace msda::analysis
