// Words for deformable attention's sizes and places.
#include <fmt/format.h>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {

std::optional<PythonSamples> MsdaCall::samples_in_python() const {
  return PythonSamples{
      "sampling_locations, spatial_shapes",
      "Samples whose gradient rounding cannot move into another cell. (x, y) in [0, 1]; (height, width).",
      "torch.as_tensor(spatial_shapes, device=sampling_locations.device).flip(-1).double()[:, None, :]",
      conventions.align_corners ? "sampling_locations.double() * (size - 1)"
                                : "sampling_locations.double() * size - 0.5",
      "\"grad_sampling_locations\", \"grad_attention_weights\""};
}

std::vector<Convention> MsdaCall::convention_values() const {
  return {{"padding_mode", msda_padding_name(conventions.padding)}, {"align_corners", conventions.align_corners}};
}

std::string MsdaCall::text_of_sizes() const {
  return fmt::format("batch {}, queries {}, heads {}, channels {}, levels {}, points {}, pixels {}", B, Q, M, D, L, P,
                     S);
}

std::string MsdaCall::text_of(Dimension dimension, int64_t index) const {
  if (dimension != MsdaDimension::kLevel) return Call::text_of(dimension, index);
  const LevelSize& level = levels[static_cast<size_t>(index)];
  return fmt::format("level {} ({} x {})", index, level.height, level.width);
}

std::vector<std::string> MsdaCall::text_of_place(Gradient gradient, int64_t flat) const {
  using Of = MsdaDimension;
  const Coordinates at = coordinates_of(gradient, flat);
  const auto text = [&](Dimension dimension) { return text_of(dimension, at[dimension.place()]); };
  if (gradient.scattered()) {
    const LevelSize& level = levels[static_cast<size_t>(at[Of::kLevel.place()])];
    const int64_t within = at[Of::kPixel.place()] - level.start;
    return {text(Of::kBatch),
            text(Of::kLevel),
            fmt::format("row {}", within / level.width),
            fmt::format("column {}", within % level.width),
            text(Of::kHead),
            text(Of::kChannel)};
  }
  std::vector<std::string> texts{text(Of::kBatch), text(Of::kQuery), text(Of::kHead), text(Of::kLevel),
                                 text(Of::kPoint)};
  if (gradient == MsdaGradient::kSamplingLocations) texts.push_back(text(Of::kAxis));
  return texts;
}

std::string MsdaCall::text_of_sample(int64_t sample) const {
  return fmt::format("query {}, point {}, corner", launch_index(sample), sample % P);
}

}  // namespace msda::analysis
