// grid_sample's forward pass in float64, one sample at a time.
#include <cmath>

#include "analysis/operators/grid_sample/samples.h"

namespace msda::analysis {
namespace {

// Returns what a sample reads with these coordinates of the grid.
Reads reads_at(const GridSampleCall& call, const std::array<double, 3>& grid) {
  Place place;
  for (int axis = 0; axis < call.axes_count; ++axis) {
    const Axis where{grid[static_cast<size_t>(axis)], call.sides[axis], MSDA_FLOAT64};
    place.push_back(call.evaluations(where, MSDA_FLOAT64).front().landing);
  }
  return reads(call, place, -1);
}

std::array<double, 3> grid_coordinates(const GridSampleCall& call, const GridSampleCall::SampleId& sample) {
  std::array<double, 3> grid{};
  for (int axis = 0; axis < call.axes_count; ++axis) {
    grid[static_cast<size_t>(axis)] = call.axis_of(sample, axis).location;
  }
  return grid;
}

void add(Loss& loss, long double addend) {
  loss.value += addend;
  loss.magnitude += std::abs(addend);
}

}  // namespace

std::optional<size_t> GridSampleCall::moved_axis(const ElementId& id) const {
  if (id.gradient.scattered()) return std::nullopt;
  return static_cast<size_t>(id.flat % axes_count);
}

Loss GridSampleCall::loss_at(const ElementId& id, double number) const {
  Loss loss;
  if (const auto moved = moved_axis(id)) {
    const SampleId sample = sample_of(id.flat);
    auto grid_at = grid_coordinates(*this, sample);
    grid_at[*moved] = number;
    for (const Read& read : reads_at(*this, grid_at)) {
      for (int64_t c = 0; read.pixel >= 0 && c < C; ++c) {
        add(loss, static_cast<long double>(read.weight) * grad_output.at(grad_output_of(sample, c)) *
                      input.at(input_of(sample.n, c, read.pixel)));
      }
    }
    return loss;
  }
  const PixelId pixel = pixel_of(id.flat);
  for (int64_t at = 0; at < samples; ++at) {
    const SampleId sample{pixel.n, at};
    for (const Read& read : reads_at(*this, grid_coordinates(*this, sample))) {
      if (read.pixel != pixel.at) continue;
      add(loss, static_cast<long double>(read.weight) * grad_output.at(grad_output_of(sample, pixel.c)) * number);
    }
  }
  return loss;
}

}  // namespace msda::analysis
