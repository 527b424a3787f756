#include "analysis/operators/msda/call.h"

namespace msda::analysis {

void MsdaCall::take_sizes() {
  B = image.shape[0];
  S = image.shape[1];
  M = image.shape[2];
  D = channels = image.shape[3];
  Q = locations.shape[1];
  L = locations.shape[3];
  P = locations.shape[4];
  samples_of_row = L * P;
  channel_dimension = 3;
  if (!spatial_shapes) return;  // of an outline: the levels are those of the call that it is of
  levels.clear();
  int64_t start = 0;
  for (int64_t l = 0; l < L; ++l) {
    const auto height = static_cast<int32_t>(spatial_shapes.at(2 * l));
    const auto width = static_cast<int32_t>(spatial_shapes.at(2 * l + 1));
    levels.push_back({height, width, start});
    start += int64_t{height} * width;
  }
}

std::span<const SamplingCall::Input> MsdaCall::input_list() const {
  static constexpr Input kInputs[] = {
      {"value", &MsdaCall::image},
      {"spatial_shapes", static_cast<Tensor SamplingCall::*>(&MsdaCall::spatial_shapes)},
      {"sampling_locations", &MsdaCall::locations},
      {"attention_weights", &MsdaCall::factors},
      {"grad_output", &MsdaCall::grad_output}};
  return kInputs;
}

int64_t MsdaCall::family_of_sample(int64_t sample) const {
  const int64_t l = sample / P % L, m = sample / (P * L) % M, b = sample / (P * L * M * Q);
  return (b * M + m) * L + l;
}

int64_t MsdaCall::sample_in(int64_t family, int64_t number) const {
  const int64_t l = family % L, m = family / L % M, b = family / L / M;
  return (((b * Q + number / P) * M + m) * L + l) * P + number % P;
}

SampledImage MsdaCall::image_of(int64_t family) const {
  const int64_t l = family % L, m = family / L % M, b = family / L / M;
  const LevelSize& level = levels[static_cast<size_t>(l)];
  return {{level.width, level.height, 1}, (b * S + level.start) * M + m, M};
}

int64_t MsdaCall::level_at(int64_t pixel) const {
  int64_t l = 0;
  while (l + 1 < L && levels[static_cast<size_t>(l + 1)].start <= pixel) ++l;
  return l;
}

SampledPixel MsdaCall::pixel_at(int64_t place) const {
  const int64_t m = place % M, s = place / M % S, b = place / M / S, l = level_at(s);
  return {(b * M + m) * L + l, s - levels[static_cast<size_t>(l)].start};
}

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

Coordinates MsdaCall::coordinates_of(Gradient gradient, int64_t flat) const {
  const Index at = kernels::index_of(shape_of(gradient), flat);
  if (gradient == MsdaGradient::kValue) return {at[0], -1, at[1], at[2], level_at(at[1]), -1, -1, at[3]};
  return {at[0], at[1], -1, at[2], at[3], at[4], at.size() == 6 ? at[5] : -1, -1};
}

}  // namespace msda::analysis
