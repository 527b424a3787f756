#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {

void GridSampleCall::take_sizes() {
  const size_t rank = image.shape.size();
  axes_count = static_cast<int>(rank) - 2;
  N = image.shape[0];
  C = channels = image.shape[1];
  pixels = samples = 1;
  for (size_t i = 2; i < rank; ++i) {
    const size_t axis = rank - 1 - i;
    sides[axis] = static_cast<int32_t>(image.shape[i]);
    output_sides[axis] = locations.shape[i - 1];
    pixels *= sides[axis];
    samples *= output_sides[axis];
  }
  image_step = pixels;
  output_step = samples;
  channel_dimension = 1;
}

std::span<const SamplingCall::Input> GridSampleCall::input_list() const {
  static constexpr Input kInputs[] = {{"input", &GridSampleCall::image},
                                      {"grid", &GridSampleCall::locations},
                                      {"grad_output", &GridSampleCall::grad_output}};
  return kInputs;
}

bool GridSampleCall::visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                                  const VisitStage& visit) const {
  std::vector<double> coordinates;
  for (const Axis& axis : axes(id)) coordinates.push_back(evaluations(axis, arithmetic()).front().coordinate);
  if (!coordinates.empty() && visit("pixel_coordinates", coordinates)) return true;
  return Call::visit_stages(id, precision, cache, visit);
}

Steps GridSampleCall::input_steps(Gradient gradient) const {
  return gradient.scattered() ? kGradOutput : kGradOutput | kValue;
}

Steps GridSampleCall::inner_steps(Gradient) const { return kInterpolationWeights | kAddends; }

const char* GridSampleCall::name_of(Step step) const {
  return step == kValue ? "input" : step == kLocations ? "grid" : Call::name_of(step);
}

Coordinates GridSampleCall::coordinates_of(Gradient gradient, int64_t flat) const {
  if (gradient.scattered()) return {flat / pixels / C, channel_of(flat), -1, flat % pixels, -1};
  const int64_t sample = sample_of(gradient, flat);
  return {sample / samples, -1, sample % samples, -1, flat % axes_count};
}

std::span<const Call::Part> GridSampleCall::parts() const {
  using Of = GridSampleDimension;
  static const Part kParts[] = {{}, {Of::kAxis}, {Of::kBatch}, {Of::kChannel}};
  return kParts;
}

}  // namespace msda::analysis
