// Words for grid_sample's sizes and places.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

// "row 3, column 5", by the sides of an image along x, y, z.
template <class Side>
std::vector<std::string> place_in(int64_t flat, const Side* sides, int axes) {
  constexpr const char* kNames[] = {"column", "row", "slice"};
  std::vector<std::string> texts(static_cast<size_t>(axes));
  for (int axis = 0; axis < axes; ++axis) {
    texts[static_cast<size_t>(axes - 1 - axis)] = fmt::format("{} {}", kNames[axis], flat % sides[axis]);
    flat /= sides[axis];
  }
  return texts;
}

}  // namespace

std::optional<PythonSamples> GridSampleCall::samples_in_python() const {
  return PythonSamples{
      "grid, size",
      "Samples that rounding cannot move into another cell. `size`: (width, height) or (width, height, "
      "depth).",
      "torch.as_tensor(size, device=grid.device).double()",
      align_corners ? "(grid.double() + 1) / 2 * (size - 1)" : "((grid.double() + 1) * size - 1) / 2",
      "\"grad_grid\","};
}

std::vector<Convention> GridSampleCall::convention_values() const {
  return {{"interpolation", kernels::name_of(interpolation)},
          {"padding_mode", kernels::name_of(padding)},
          {"align_corners", align_corners}};
}

std::string GridSampleCall::text_of_sizes() const {
  std::vector<int64_t> in, out;
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    in.push_back(sides[axis]);
    out.push_back(output_sides[axis]);
  }
  return fmt::format("batch {}, channels {}, input {}, grid {}, {} interpolation", N, C, fmt::join(in, " x "),
                     fmt::join(out, " x "), kernels::name_of(interpolation));
}

std::vector<std::string> GridSampleCall::text_of_place(Gradient gradient, int64_t flat) const {
  using Of = GridSampleDimension;
  const Coordinates at = coordinates_of(gradient, flat);
  std::vector<std::string> texts{text_of(Of::kBatch, at[Of::kBatch.place()])};
  if (gradient.scattered()) texts.push_back(text_of(Of::kChannel, at[Of::kChannel.place()]));
  const auto place = gradient.scattered() ? place_in(at[Of::kPixel.place()], sides, axes_count)
                                          : place_in(at[Of::kSample.place()], output_sides, axes_count);
  texts.insert(texts.end(), place.begin(), place.end());
  if (!gradient.scattered()) texts.push_back(text_of(Of::kAxis, at[Of::kAxis.place()]));
  return texts;
}

std::string GridSampleCall::text_of_sample(int64_t sample) const {
  const Tensor grid_of_batch{nullptr, locations.dtype, Index(locations.shape.begin() + 1, locations.shape.end() - 1)};
  return fmt::format("sample ({}), pixel tap", fmt::join(grid_of_batch.index_of(sample % samples), ", "));
}

}  // namespace msda::analysis
