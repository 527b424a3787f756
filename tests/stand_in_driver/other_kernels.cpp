#include "tests/stand_in_driver/other_kernels.h"

#include <algorithm>
#include <cmath>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {
namespace {

// A coordinate of the image as padding has it, and how it changes with the one of the grid.
struct Coordinate {
  double at, slope;
};

Coordinate locate(double g, int64_t size, int padding, bool align_corners) {
  const double side = static_cast<double>(size);
  Coordinate c = align_corners ? Coordinate{(g + 1) / 2 * (side - 1), (side - 1) / 2}
                               : Coordinate{((g + 1) * side - 1) / 2, side / 2};
  if (padding == 2) {  // reflection, at pixel centres or at the image's edges
    const double low = align_corners ? 0 : -0.5, span = align_corners ? side - 1 : side;
    const double way = std::fabs(c.at - low), turns = std::floor(way / span), rest = way - turns * span;
    const bool back = std::fmod(turns, 2) != 0;
    if (c.at < low) c.slope = -c.slope;
    if (back) c.slope = -c.slope;
    c.at = low + (back ? span - rest : rest);
  }
  if (padding != 0) {
    if (c.at <= 0 || c.at >= side - 1) c.slope = 0;
    c.at = std::fmin(std::fmax(c.at, 0), side - 1);
  }
  return c;
}

template <class T, class Index>
bool reachable(const TensorInfo<T, Index>& tensor) {
  Index last = 0;
  for (int i = 0; i < tensor.dims; ++i) last += (tensor.sizes[i] - 1) * tensor.strides[i];
  return tensor.dims == 4 && last >= 0 &&
         allocated(reinterpret_cast<uintptr_t>(tensor.data), (static_cast<size_t>(last) + 1) * sizeof(T));
}

template <class T, class Index>
T* element(const TensorInfo<T, Index>& tensor, Index a, Index b, Index c, Index d) {
  return tensor.data + a * tensor.strides[0] + b * tensor.strides[1] + c * tensor.strides[2] + d * tensor.strides[3];
}

template <class T, class Index>
CUresult grid_sampler(const std::byte* bytes) {
  using Info = TensorInfo<T, Index>;
  Arguments arguments(bytes);
  const auto n = arguments.next<Index>();
  const auto grad_output = arguments.next<Info>(), input = arguments.next<Info>(), grid = arguments.next<Info>();
  const auto grad_input = arguments.next<Info>(), grad_grid = arguments.next<Info>();
  const auto interpolation = arguments.next<int>(), padding = arguments.next<int>();
  const bool align_corners = arguments.next<bool>();
  arguments.next<Index>();  // the span bounds atomics
  const bool input_requires_grad = arguments.next<bool>();
  if (!reachable(grad_output) || !reachable(input) || !reachable(grid) || !reachable(grad_grid) ||
      (input_requires_grad && !reachable(grad_input)) || interpolation > 1) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  const Index channels = input.sizes[1], height = input.sizes[2], width = input.sizes[3];
  for (Index i = 0; i < n; ++i) {
    const Index w = i % grid.sizes[2], h = i / grid.sizes[2] % grid.sizes[1], b = i / grid.sizes[2] / grid.sizes[1];
    const Coordinate x = locate(*element<T, Index>(grid, b, h, w, 0), width, padding, align_corners);
    const Coordinate y = locate(*element<T, Index>(grid, b, h, w, 1), height, padding, align_corners);
    const bool nearest = interpolation == 1;
    const double left = nearest ? std::nearbyint(x.at) : std::floor(x.at);
    const double top = nearest ? std::nearbyint(y.at) : std::floor(y.at);
    double grad_x = 0, grad_y = 0;
    for (int corner = 0; corner < (nearest ? 1 : 4); ++corner) {
      const double column = left + corner % 2, row = top + corner / 2;
      if (column < 0 || row < 0 || column >= static_cast<double>(width) || row >= static_cast<double>(height)) continue;
      const double weight_x = nearest ? 1 : 1 - std::fabs(x.at - column);
      const double weight_y = nearest ? 1 : 1 - std::fabs(y.at - row);
      for (Index c = 0; c < channels; ++c) {
        const auto r = static_cast<Index>(row), k = static_cast<Index>(column);
        const double gradient = *element<T, Index>(grad_output, b, c, h, w);
        if (input_requires_grad) {
          T* const sum = element<T, Index>(grad_input, b, c, r, k);
          *sum = static_cast<T>(*sum + gradient * weight_x * weight_y);
        }
        if (nearest) continue;
        const double pixel = *element<T, Index>(input, b, c, r, k);
        grad_x += gradient * pixel * (corner % 2 ? 1 : -1) * weight_y;
        grad_y += gradient * pixel * (corner / 2 ? 1 : -1) * weight_x;
      }
    }
    grad_grid.data[i * grad_grid.strides[2]] = static_cast<T>(grad_x * x.slope);
    grad_grid.data[i * grad_grid.strides[2] + 1] = static_cast<T>(grad_y * y.slope);
  }
  return CUDA_SUCCESS;
}

CUresult scale_add(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto rows = arguments.next<int>();
  const auto scale = arguments.next<Scale>();
  const auto* const x = arguments.next<const float*>();
  auto* const y = arguments.next<float*>();
  auto* const positive = arguments.next<unsigned char*>();
  const auto count = static_cast<size_t>(rows) * static_cast<size_t>(scale.columns);
  if (!allocated(reinterpret_cast<uintptr_t>(x), count * sizeof(float)) ||
      !allocated(reinterpret_cast<uintptr_t>(y), count * sizeof(float)) ||
      !allocated(reinterpret_cast<uintptr_t>(positive), count)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; ++i) {
    y[i] += scale.alpha * x[i];
    positive[i] = y[i] > 0;
  }
  return CUDA_SUCCESS;
}

CUresult whereabouts(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto count = static_cast<size_t>(arguments.next<int>());
  const auto* const x = arguments.next<const float*>();
  const auto* const y = arguments.next<const float*>();
  auto* const sums = arguments.next<float*>();
  auto* const places = arguments.next<int64_t*>();
  const auto at = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  if (!count || !allocated(at(x), (2 * count - 1) * sizeof(float)) ||
      !allocated(at(y), (2 * count - 1) * sizeof(float)) || !allocated(at(sums), (3 * count - 2) * sizeof(float)) ||
      !allocated(at(places), kPlaces * sizeof(int64_t))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < count; ++i) sums[3 * i] += x[2 * i] + y[2 * i];
  const int64_t found[kPlaces] = {static_cast<int64_t>(at(x) % 256), static_cast<int64_t>(at(y) - at(x)),
                                  static_cast<int64_t>(at(sums) % 256), static_cast<int64_t>(at(places) % 256)};
  std::copy(found, found + kPlaces, places);
  return CUDA_SUCCESS;
}

// Where parameters of these sizes and alignments lie.
std::vector<Parameter> layout(const std::vector<std::pair<size_t, size_t>>& sizes) {
  std::vector<Parameter> parameters;
  size_t at = 0;
  for (const auto& [bytes, alignment] : sizes) {
    at = (at + alignment - 1) / alignment * alignment;
    parameters.push_back({at, bytes});
    at += bytes;
  }
  return parameters;
}

template <class Index>
std::vector<Parameter> grid_sampler_layout() {
  const std::pair<size_t, size_t> n{sizeof(Index), sizeof(Index)}, four{4, 4}, flag{1, 1};
  const std::pair<size_t, size_t> tensor{sizeof(TensorInfo<float, Index>), 8};
  return layout({n, tensor, tensor, tensor, tensor, tensor, four, four, flag, n, flag});
}

}  // namespace

const std::vector<KernelCode>& other_kernels() {
  static const std::vector<KernelCode> kernels = {
      {kGridSamplerFloat, grid_sampler_layout<int>(), grid_sampler<float, int>},
      {kGridSamplerDouble, grid_sampler_layout<int64_t>(), grid_sampler<double, int64_t>},
      {kScaleAdd, layout({{4, 4}, {8, 4}, {8, 8}, {8, 8}, {8, 8}}), scale_add},
      {kWhereabouts, layout({{4, 4}, {8, 8}, {8, 8}, {8, 8}, {8, 8}}), whereabouts}};
  return kernels;
}

}  // namespace msda::stand_in
