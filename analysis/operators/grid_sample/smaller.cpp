// grid_sample's calls made smaller: by batches, channels, and samples along each side of the grid, by the sides of the
// image.
#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {
namespace {

constexpr const char* kSides[] = {"W", "H", "D"};  // by axis: x, y, z
constexpr const char* kOutputSides[] = {"W_out", "H_out", "D_out"};
constexpr const char* kOutputNames[] = {"column of samples", "row of samples", "slice of samples"};

}  // namespace

// Batches, channels, and the grid's sides in the order of its dimensions.
std::vector<Cut> GridSampleCall::cuts() const {
  std::vector<Cut> all{{"batch", "N", N}, {"channel", "C", C}};
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    all.push_back({kOutputNames[axis], kOutputSides[axis], output_sides[axis]});
  }
  return all;
}

Kept GridSampleCall::kept_of(std::string_view tensor, const Kept& kept) const {
  const bool of_grid = tensor == "grid" || tensor == "grad_grid";
  Kept result{kept[0]};
  if (!of_grid) result.push_back(kept[1]);
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    const bool of_image = tensor == "input" || tensor == "grad_input";
    result.push_back(of_image ? all_indices(sides[axis]) : kept[static_cast<size_t>(1 + axes_count - axis)]);
  }
  if (of_grid) result.push_back(all_indices(axes_count));
  return result;
}

std::vector<int64_t> GridSampleCall::cut_indices(const ElementId& id) const {
  if (id.gradient.scattered()) {
    std::vector<int64_t> indices{id.flat / pixels / C, channel_of(id.flat)};
    indices.resize(static_cast<size_t>(2 + axes_count), -1);
    return indices;
  }
  const int64_t sample = sample_of(id.gradient, id.flat);
  std::vector<int64_t> indices{sample / samples, -1};
  int64_t rest = sample % samples;
  for (int axis = 0; axis < axes_count; ++axis) {
    indices.insert(indices.begin() + 2, rest % output_sides[axis]);
    rest /= output_sides[axis];
  }
  return indices;
}

std::vector<Image> GridSampleCall::images() const {
  Image whole{"image", {}, {}};
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    whole.axes.push_back(kSides[axis]);
    whole.sides.push_back(sides[axis]);
  }
  return {whole};
}

Inputs GridSampleCall::cropped(size_t, size_t side, int64_t first, int64_t count) const {
  const int axis = axes_count - 1 - static_cast<int>(side);
  Kept of_image = whole_of(image);
  of_image[2 + side].clear();
  for (int64_t i = 0; i < count; ++i) of_image[2 + side].push_back(first + i);
  Inputs smaller{sliced("input", image, of_image), sliced("grid", locations, whole_of(locations)),
                 sliced("grad_output", grad_output, whole_of(grad_output))};
  const auto every = [](int64_t) { return true; };
  if (!move_locations(smaller[1], axis, sides[axis], first, count, every)) return {};
  return smaller;
}

}  // namespace msda::analysis
