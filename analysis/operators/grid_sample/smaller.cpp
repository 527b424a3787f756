// grid_sample's calls made smaller: by batches, channels, and samples along each side of the grid, by the sides of the
// image.
#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {
namespace {

constexpr const char* kSides[] = {"W", "H", "D"};  // by axis: x, y, z
constexpr const char* kOutputSides[] = {"W_out", "H_out", "D_out"};
constexpr const char* kOutputNames[] = {"column of samples", "row of samples", "slice of samples"};

}  // namespace

void GridSampleCall::take_sizes() {
  const size_t rank = input.shape.size();
  axes_count = static_cast<int>(rank) - 2;
  N = input.shape[0];
  C = input.shape[1];
  pixels = samples = 1;
  for (size_t i = 2; i < rank; ++i) {
    const size_t axis = rank - 1 - i;
    sides[axis] = static_cast<int32_t>(input.shape[i]);
    output_sides[axis] = grid.shape[i - 1];
    pixels *= sides[axis];
    samples *= output_sides[axis];
  }
}

std::shared_ptr<const Call> GridSampleCall::with_inputs(std::span<const OwnedTensor> given) const {
  auto call = std::make_shared<GridSampleCall>();
  call->align_corners = align_corners;
  call->interpolation = interpolation;
  call->padding = padding;
  call->input = tensor_named(given, "input").view();
  call->grid = tensor_named(given, "grid").view();
  call->grad_output = tensor_named(given, "grad_output").view();
  call->take_sizes();
  return call;
}

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
    const PixelId pixel = pixel_of(id.flat);
    std::vector<int64_t> indices{pixel.n, pixel.c};
    indices.resize(static_cast<size_t>(2 + axes_count), -1);
    return indices;
  }
  const SampleId sample = sample_of(id.flat);
  std::vector<int64_t> indices{sample.n, -1};
  int64_t rest = sample.at;
  for (int axis = 0; axis < axes_count; ++axis) {
    indices.insert(indices.begin() + 2, rest % output_sides[axis]);
    rest /= output_sides[axis];
  }
  return indices;
}

std::vector<Image> GridSampleCall::images() const {
  Image image{"image", {}, {}};
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    image.axes.push_back(kSides[axis]);
    image.sides.push_back(sides[axis]);
  }
  return {image};
}

Inputs GridSampleCall::cropped(size_t, size_t side, int64_t first, int64_t count) const {
  const int axis = axes_count - 1 - static_cast<int>(side);
  Kept of_image = whole_of(input);
  of_image[2 + side].clear();
  for (int64_t i = 0; i < count; ++i) of_image[2 + side].push_back(first + i);
  Inputs smaller{sliced("input", input, of_image), sliced("grid", grid, whole_of(grid)),
                 sliced("grad_output", grad_output, whole_of(grad_output))};
  const CoordinateMap before = coordinate_map(sides[axis]), after = coordinate_map(static_cast<int32_t>(count));
  if (after.factor == 0) return {};
  for (int64_t i = axis; i < grid.elements(); i += axes_count) {
    const double pixel = before.pixel(grid.at(i)) - static_cast<double>(first);
    store(smaller[1].bytes.data(), grid.dtype, i, after.location(pixel));
  }
  return smaller;
}

Inputs GridSampleCall::merged_channels() const {
  if (N * samples != 1) return {};
  Index of_image = input.shape, of_output = grad_output.shape;
  of_image[1] = of_output[1] = 1;
  Inputs merged{OwnedTensor("input", input.dtype, of_image), sliced("grid", grid, whole_of(grid)),
                OwnedTensor("grad_output", grad_output.dtype, of_output)};
  for (int64_t at = 0; at < pixels; ++at) {
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += grad_output.at(c) * input.at(c * pixels + at);
    store(merged[0].bytes.data(), input.dtype, at, sum);
  }
  store(merged[2].bytes.data(), grad_output.dtype, 0, 1);
  return merged;
}

}  // namespace msda::analysis
