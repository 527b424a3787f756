#include "analysis/operators/grid_sample/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/operators/grid_sample/samples.h"

namespace msda::analysis {
Index GridSampleCall::shape_of(Gradient gradient) const {
  return gradient == GridSampleGradient::kInput ? input.shape : grid.shape;
}

std::vector<NamedTensor> GridSampleCall::inputs() const {
  return {{"input", input}, {"grid", grid}, {"grad_output", grad_output}};
}

msda_dtype GridSampleCall::arithmetic() const {
  for (const Tensor* tensor : {&input, &grid, &grad_output}) {
    if (tensor->dtype == MSDA_FLOAT64) return MSDA_FLOAT64;
  }
  return MSDA_FLOAT32;
}

Axis GridSampleCall::axis_of(const SampleId& sample, int axis) const {
  return {grid.at((sample.n * samples + sample.at) * axes_count + axis), sides[axis], grid.dtype};
}

Axes GridSampleCall::axes(const ElementId& id) const {
  Axes all;
  if (id.gradient.scattered()) return all;
  for (int axis = 0; axis < axes_count; ++axis) all.push_back(axis_of(sample_of(id.flat), axis));
  return all;
}

int64_t GridSampleCall::family_of(Gradient gradient, int64_t flat) const {
  return gradient.scattered() ? pixel_of(flat).n : sample_of(flat).n;
}

std::vector<int64_t> GridSampleCall::some_of_family(Gradient gradient, int64_t family, int64_t most) const {
  const int64_t all = gradient.scattered() ? C * pixels : samples, count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = family * all + i * all / count;
    elements.push_back(gradient.scattered() ? at : at * axes_count + i % axes_count);
  }
  return elements;
}

// Returns the channels of a pixel.
int64_t GridSampleCall::weights_of(Gradient gradient, int64_t flat) const {
  if (!gradient.scattered()) return flat;
  const PixelId pixel = pixel_of(flat);
  return pixel.n * pixels + pixel.at;
}

bool GridSampleCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                                  const VisitInput& visit) const {
  const auto visit_sample = [&](const SampleId& sample) {
    for (int axis = 0; axis < axes_count; ++axis) {
      if (visit("grid", grid, (sample.n * samples + sample.at) * axes_count + axis)) return true;
    }
    return false;
  };
  if (id.gradient.scattered()) {
    const PixelId pixel = pixel_of(id.flat);
    for (const auto& addend : contributions(cache, pixel.n, precision)->exact(pixel.at)) {
      const SampleId sample{pixel.n, addend.sample};
      if (visit_sample(sample) || visit("grad_output", grad_output, grad_output_of(sample, pixel.c))) return true;
    }
    return false;
  }
  const SampleId sample = sample_of(id.flat);
  for (const Read& read : reads(*this, place, -1)) {
    for (int64_t c = 0; read.pixel >= 0 && c < C; ++c) {
      if (visit("input", input, input_of(sample.n, c, read.pixel))) return true;
    }
  }
  if (visit_sample(sample)) return true;
  for (int64_t c = 0; c < C; ++c) {
    if (visit("grad_output", grad_output, grad_output_of(sample, c))) return true;
  }
  return false;
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

std::span<const Dimension> GridSampleCall::dimensions() const {
  using Of = GridSampleDimension;
  static constexpr Dimension kAll[] = {Of::kBatch, Of::kChannel, Of::kSample, Of::kPixel, Of::kAxis};
  return kAll;
}

Coordinates GridSampleCall::coordinates_of(Gradient gradient, int64_t flat) const {
  if (gradient.scattered()) {
    const PixelId pixel = pixel_of(flat);
    return {pixel.n, pixel.c, -1, pixel.at, -1};
  }
  const SampleId sample = sample_of(flat);
  return {sample.n, -1, sample.at, -1, flat % axes_count};
}

std::span<const Call::Part> GridSampleCall::parts() const {
  using Of = GridSampleDimension;
  static const Part kParts[] = {{}, {Of::kAxis}, {Of::kBatch}, {Of::kChannel}};
  return kParts;
}

}  // namespace msda::analysis
