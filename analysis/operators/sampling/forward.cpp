// The forward pass of operators that sample in float64, one sample at a time.
#include <cmath>

#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

void add(Loss& loss, long double addend) {
  loss.value += addend;
  loss.magnitude += std::abs(addend);
}

// Returns what a sample reads, with a coordinate `moved` along an axis if there is one.
Reads reads_of(const SamplingCall& call, int64_t sample, const SampledImage& image, std::optional<size_t> axis = {},
               double moved = 0) {
  Place place;
  for (size_t i = 0; i < static_cast<size_t>(call.axes_count); ++i) {
    Axis where = call.axis_at(sample, image, static_cast<int>(i));
    if (axis == i) where.location = moved;
    place.push_back(call.evaluations(where, MSDA_FLOAT64).front().landing);
  }
  return reads(call, image, place, -1);
}

}  // namespace

std::optional<size_t> SamplingCall::moved_axis(const ElementId& id) const {
  const int axis = axis_of(id.gradient, id.flat);
  return axis < 0 ? std::nullopt : std::optional(static_cast<size_t>(axis));
}

Loss SamplingCall::loss_at(const ElementId& id, double number) const {
  Loss loss;
  if (id.gradient.scattered()) {
    const int64_t channel = channel_of(id.flat);
    const SampledPixel at = pixel_at(without_channel(id.flat, image_step));
    const SampledImage read_image = image_of(at.family);
    for (int64_t i = 0; i < samples_of_family(); ++i) {
      const int64_t sample = sample_in(at.family, i);
      const long double factor =
          static_cast<long double>(factor_of(sample)) * grad_output.at(output_element(sample, channel)) * number;
      for (const Read& read : reads_of(*this, sample, read_image)) {
        if (read.pixel == at.pixel) add(loss, factor * read.weight);
      }
    }
    return loss;
  }
  const int64_t sample = sample_of(id.gradient, id.flat);
  const auto axis = moved_axis(id);
  const long double own = axis ? factor_of(sample) : number;
  const SampledImage read_image = image_of(family_of_sample(sample));
  const Reads all = reads_of(*this, sample, read_image, axis, number);
  for (int64_t c = 0; c < channels; ++c) {
    const long double factor = own * grad_output.at(output_element(sample, c));
    for (const Read& read : all) {
      if (read.pixel < 0) continue;
      add(loss, factor * read.weight * image.at(image_element(read_image.place_of(read.pixel), c)));
    }
  }
  return loss;
}

}  // namespace msda::analysis
