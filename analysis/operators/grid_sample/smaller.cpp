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

std::vector<int> GridSampleCall::cuts_of(std::string_view tensor) const {
  const bool of_image = tensor == "input" || tensor == "grad_input",
             of_grid = tensor == "grid" || tensor == "grad_grid";
  std::vector<int> all{0};
  if (!of_grid) all.push_back(1);
  for (int i = 0; i < axes_count; ++i) all.push_back(of_image ? -1 : 2 + i);
  if (of_grid) all.push_back(-1);
  return all;
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
  of_image[2 + side] = all_indices(count);
  for (int64_t& pixel : of_image[2 + side]) pixel += first;
  Inputs smaller = with_image(of_image);
  const auto every = [](int64_t) { return true; };
  if (!move_locations(smaller[1], axis, sides[axis], first, count, every)) return {};
  return smaller;
}

}  // namespace msda::analysis
