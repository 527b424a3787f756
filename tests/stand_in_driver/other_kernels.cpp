#include "tests/stand_in_driver/other_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

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

// Whether the tensor has these sizes, and all its elements lie in allocated memory.
template <class T, class Index>
bool is_reachable(const TensorInfo<T, Index>& tensor, const std::vector<Index>& sizes) {
  if (static_cast<size_t>(tensor.dims) != sizes.size()) return false;
  double last = 0;  // which no strides overflow
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || tensor.sizes[i] != sizes[i] || tensor.strides[i] < 0) return false;
    last += static_cast<double>(sizes[i] - 1) * static_cast<double>(tensor.strides[i]);
  }
  return last < 0x1p40 &&
         allocated(reinterpret_cast<uintptr_t>(tensor.data), (static_cast<size_t>(last) + 1) * sizeof(T));
}

template <class Index, int kAxes>
using Place = std::array<Index, kAxes>;  // along each axis, x first

// The element [batch,channel,(z,)y,x].
template <int kAxes, class T, class Index>
T* element(const TensorInfo<T, Index>& tensor, Index batch, Index channel, const Place<Index, kAxes>& at) {
  Index offset = batch * tensor.strides[0] + channel * tensor.strides[1];
  for (int axis = 0; axis < kAxes; ++axis) offset += at[axis] * tensor.strides[kAxes + 1 - axis];
  return tensor.data + offset;
}

template <class T, class Index>
struct GridSampler {
  Index n;
  TensorInfo<T, Index> grad_output, input, grid, grad_input, grad_grid;
  int interpolation, padding;
  bool align_corners, input_requires_grad;
};

// Thread i, for the sample `at` of the batch.
template <int kAxes, class T, class Index>
void sample(const GridSampler<T, Index>& call, Index i, Index batch, const Place<Index, kAxes>& at) {
  const bool nearest = call.interpolation == 1;
  std::array<Coordinate, kAxes> coordinates;
  std::array<double, kAxes> first, sums{};
  for (int axis = 0; axis < kAxes; ++axis) {
    Index offset = batch * call.grid.strides[0] + axis * call.grid.strides[kAxes + 1];
    for (int another = 0; another < kAxes; ++another) offset += at[another] * call.grid.strides[kAxes - another];
    coordinates[axis] =
        locate(call.grid.data[offset], call.input.sizes[kAxes + 1 - axis], call.padding, call.align_corners);
    first[axis] = nearest ? std::nearbyint(coordinates[axis].at) : std::floor(coordinates[axis].at);
  }
  for (int corner = 0; corner < (nearest ? 1 : 1 << kAxes); ++corner) {
    Place<Index, kAxes> pixel;
    std::array<double, kAxes> weights;
    double weight = 1;
    bool inside = true;
    for (int axis = 0; axis < kAxes; ++axis) {
      const double place = first[axis] + (corner >> axis & 1);
      inside = place >= 0 && place < static_cast<double>(call.input.sizes[kAxes + 1 - axis]);
      if (!inside) break;
      pixel[axis] = static_cast<Index>(place);
      weights[axis] = nearest ? 1 : 1 - std::fabs(coordinates[axis].at - place);
      weight *= weights[axis];
    }
    if (!inside) continue;
    for (Index c = 0; c < call.input.sizes[1]; ++c) {
      const double gradient = *element<kAxes>(call.grad_output, batch, c, at);
      if (call.input_requires_grad) {
        T* const sum = element<kAxes>(call.grad_input, batch, c, pixel);
        *sum = static_cast<T>(*sum + gradient * weight);
      }
      if (nearest) continue;
      const double value = gradient * *element<kAxes>(call.input, batch, c, pixel);
      for (int axis = 0; axis < kAxes; ++axis) {
        double slope = corner >> axis & 1 ? value : -value;
        for (int another = 0; another < kAxes; ++another) slope *= another == axis ? 1 : weights[another];
        sums[axis] += slope;
      }
    }
  }
  T* const grad_grid = call.grad_grid.data + i * call.grad_grid.strides[kAxes];
  for (int axis = 0; axis < kAxes; ++axis) grad_grid[axis] = static_cast<T>(sums[axis] * coordinates[axis].slope);
}

// Whether the tensors fit together and are where the call says. The parameters may be random numbers.
template <int kAxes, class T, class Index>
bool valid(const GridSampler<T, Index>& call) {
  const Index *const sides = call.input.sizes, *const places = call.grid.sizes;
  const std::vector<Index> image(sides, sides + kAxes + 2);
  std::vector<Index> grid{sides[0]}, results{sides[0], sides[1]};
  grid.insert(grid.end(), places + 1, places + 1 + kAxes);
  results.insert(results.end(), places + 1, places + 1 + kAxes);
  const double n = std::accumulate(grid.begin(), grid.end(), 1.0, std::multiplies<>());
  grid.push_back(kAxes);
  // It writes the gradient of the grid by one stride alone.
  const double last = (n - 1) * static_cast<double>(call.grad_grid.strides[kAxes]) + kAxes;
  return is_reachable(call.input, image) && is_reachable(call.grid, grid) && is_reachable(call.grad_output, results) &&
         is_reachable(call.grad_grid, grid) && (!call.input_requires_grad || is_reachable(call.grad_input, image)) &&
         static_cast<double>(call.n) == n && last < 0x1p40 && call.interpolation >= 0 && call.interpolation <= 1 &&
         allocated(reinterpret_cast<uintptr_t>(call.grad_grid.data), static_cast<size_t>(last) * sizeof(T));
}

template <class T, class Index, int kAxes>
CUresult grid_sampler(const std::byte* bytes) {
  using Info = TensorInfo<T, Index>;
  Arguments arguments(bytes);
  GridSampler<T, Index> call;
  call.n = arguments.next<Index>();
  for (Info* tensor : {&call.grad_output, &call.input, &call.grid, &call.grad_input, &call.grad_grid}) {
    *tensor = arguments.next<Info>();
  }
  call.interpolation = arguments.next<int>();
  call.padding = arguments.next<int>();
  call.align_corners = arguments.next<bool>();
  arguments.next<Index>();  // the span bounds atomics
  call.input_requires_grad = arguments.next<bool>();
  if (!valid<kAxes>(call)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (Index i = 0; i < call.n; ++i) {
    Place<Index, kAxes> at;
    Index rest = i;
    for (int axis = 0; axis < kAxes; ++axis) {
      at[axis] = rest % call.grid.sizes[kAxes - axis];
      rest /= call.grid.sizes[kAxes - axis];
    }
    sample<kAxes>(call, i, rest, at);
  }
  return CUDA_SUCCESS;
}

bool floats_at(const void* pointer, uint64_t count) {
  return allocated(reinterpret_cast<uintptr_t>(pointer), count * sizeof(float));
}

// What a point at a coordinate reads along an axis: pixels, and their weights.
using Pair = std::array<std::pair<int, double>, 2>;
Pair around(double at, int size) {
  const int low = std::min(static_cast<int>(std::floor(std::max(at, 0.0))), size - 1),
            high = std::min(low + 1, size - 1);
  const double part = low == high ? 0 : std::max(at, 0.0) - low;
  return {{{low, 1 - part}, {high, part}}};
}

CUresult roi_align(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto threads = arguments.next<int>();
  const auto* const grad_output = arguments.next<const float*>();
  const auto scale = arguments.next<float>();
  int sizes[6];  // channels, height, width, rows and columns of bins, points
  for (int& size : sizes) size = arguments.next<int>();
  const double shift = arguments.next<bool>() ? 0.5 : 0;
  auto* const grad_input = arguments.next<float*>();
  const auto* const boxes = arguments.next<const float*>();
  int strides[4];
  for (int& stride : strides) stride = arguments.next<int>();
  const auto span = arguments.next<int>();
  const auto& [channels, height, width, rows, columns, points] = sizes;
  const int count = threads / (channels * rows * columns);
  if (!floats_at(grad_output, static_cast<uint64_t>(threads)) || !floats_at(grad_input, static_cast<uint64_t>(span)) ||
      !floats_at(boxes, static_cast<uint64_t>(count) * 5)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (int i = 0; i < threads; ++i) {
    const int bin[2] = {i % columns, i / columns % rows}, c = i / columns / rows % channels,
              k = i / columns / rows / channels;
    const float given = grad_output[k * strides[0] + c * strides[1] + bin[1] * strides[2] + bin[0] * strides[3]];
    const float* const box = boxes + 5 * k;
    for (int point = 0; point < points * points; ++point) {
      const int number[2] = {point % points, point / points}, bins[2] = {columns, rows}, size[2] = {width, height};
      Pair along[2];
      bool inside = true;
      for (int axis = 0; axis < 2; ++axis) {
        const double start = box[1 + axis] * scale - shift, length = box[3 + axis] * scale - shift - start;
        const double at = start + (bin[axis] + (number[axis] + 0.5) / points) *
                                      (shift == 0 ? std::max(length, 1.0) : length) / bins[axis];
        inside = inside && at >= -1 && at <= size[axis];
        along[axis] = around(at, size[axis]);
      }
      for (const auto& [y, wy] : along[1]) {
        for (const auto& [x, wx] : along[0]) {
          float& sum = grad_input[((static_cast<int>(box[0]) * channels + c) * height + y) * width + x];
          if (inside) sum += static_cast<float>(given * wy * wx / (points * points));
        }
      }
    }
  }
  return CUDA_SUCCESS;
}

// What a sample adds to an image with zeros around it: pixels, and their weights.
Pair around_with_zeros(double at) {
  const double low = std::floor(at);
  return {{{static_cast<int>(low), 1 - (at - low)}, {static_cast<int>(low) + 1, at - low}}};
}

CUresult deformable_col2im(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto threads = arguments.next<int64_t>();
  const auto* const columns = arguments.next<const float*>();
  const auto* const offset = arguments.next<const float*>();
  const auto* const mask = arguments.next<const float*>();
  std::array<int64_t, 15> n{};
  for (int64_t& number : n) number = arguments.next<int64_t>();
  const auto [channels, height, width, taps_y, taps_x, pad_y, pad_x, stride_y, stride_x, dilation_y, dilation_x, images,
              groups, rows, places] = n;
  const bool has_mask = arguments.next<bool>();
  auto* const grad_input = arguments.next<float*>();
  const int64_t taps = taps_y * taps_x, positions = rows * places;
  const auto offsets = static_cast<uint64_t>(2 * images * groups * taps * positions);
  if (!floats_at(columns, static_cast<uint64_t>(threads)) || !floats_at(offset, offsets) ||
      (has_mask && !floats_at(mask, offsets / 2)) ||
      !floats_at(grad_input, static_cast<uint64_t>(images * channels * height * width))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (int64_t i = 0; i < threads; ++i) {
    const int64_t place = i % positions, image = i / positions % images, tap = i / positions / images % taps,
                  channel = i / positions / images / taps;
    const int64_t sample = (image * groups + channel / (channels / groups)) * taps + tap;
    const float y = static_cast<float>(place / places * stride_y - pad_y + tap / taps_x * dilation_y) +
                    offset[2 * sample * positions + place];
    const float x = static_cast<float>(place % places * stride_x - pad_x + tap % taps_x * dilation_x) +
                    offset[(2 * sample + 1) * positions + place];
    for (const auto& [row, of_row] : around_with_zeros(y)) {
      for (const auto& [column, of_column] : around_with_zeros(x)) {
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        const auto weight = static_cast<float>(of_row) * static_cast<float>(of_column);
        const float factor = has_mask ? mask[sample * positions + place] : 1;
        grad_input[((image * channels + channel) * height + row) * width + column] += factor * weight * columns[i];
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult upsample_bilinear2d(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto planes = static_cast<int>(arguments.next<uint64_t>());
  int in[2], out[2];  // rows, columns
  for (int* size : {&in[0], &in[1], &out[0], &out[1]}) *size = arguments.next<int>();
  const double rows = arguments.next<float>(), columns = arguments.next<float>();
  const double shift = arguments.next<bool>() ? 0 : 0.5;
  auto* const grad_input = arguments.next<float*>();
  const auto* const grad_output = arguments.next<const float*>();
  const int all = planes * out[0] * out[1];
  if (!floats_at(grad_output, static_cast<uint64_t>(all)) ||
      !floats_at(grad_input, static_cast<uint64_t>(planes * in[0] * in[1]))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (int i = 0; i < all; ++i) {
    const int column = i % out[1], row = i / out[1] % out[0], plane = i / out[1] / out[0];
    for (const auto& [y, wy] : around(rows * (row + shift) - shift, in[0])) {
      for (const auto& [x, wx] : around(columns * (column + shift) - shift, in[1])) {
        grad_input[(plane * in[0] + y) * in[1] + x] += static_cast<float>(wy * wx * grad_output[i]);
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult upsample_nearest2d(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto* const grad_output = arguments.next<const float*>();
  int sizes[6];  // batches, channels, rows and columns of grad_output and of grad_input
  for (int& size : sizes) size = static_cast<int>(arguments.next<uint64_t>());
  auto* const grad_input = arguments.next<float*>();
  const auto rows = arguments.next<float>(), columns = arguments.next<float>();
  const auto& [batches, channels, out_rows, out_columns, in_rows, in_columns] = sizes;
  const int planes = batches * channels, all = planes * in_rows * in_columns;
  if (!floats_at(grad_output, static_cast<uint64_t>(planes * out_rows * out_columns)) ||
      !floats_at(grad_input, static_cast<uint64_t>(all))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  const auto first = [](int pixel, float scale, int most) {
    return std::min(static_cast<int>(std::ceil(static_cast<float>(pixel) * scale)), most);
  };
  for (int i = 0; i < all; ++i) {
    const int column = i % in_columns, row = i / in_columns % in_rows, plane = i / in_columns / in_rows;
    float sum = 0;
    for (int y = first(row, rows, out_rows); y < first(row + 1, rows, out_rows); ++y) {
      for (int x = first(column, columns, out_columns); x < first(column + 1, columns, out_columns); ++x) {
        sum += grad_output[(plane * out_rows + y) * out_columns + x];
      }
    }
    grad_input[i] = sum;
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
std::vector<Parameter> layout_of_other(const std::vector<std::pair<size_t, size_t>>& sizes) {
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
  return layout_of_other({n, tensor, tensor, tensor, tensor, tensor, four, four, flag, n, flag});
}

std::vector<Parameter> deformable_layout() {
  std::vector<std::pair<size_t, size_t>> slots(21, {8, 8});  // pointers, and numbers of 64 bits
  slots[19] = {1, 1};
  return layout_of_other(slots);
}

}  // namespace

const std::vector<KernelCode>& other_kernels() {
  static const std::vector<KernelCode> kernels = {
      {kGridSamplerFloat, grid_sampler_layout<int>(), grid_sampler<float, int, 2>},
      {kGridSamplerDouble, grid_sampler_layout<int64_t>(), grid_sampler<double, int64_t, 2>},
      {kGridSampler3dFloat, grid_sampler_layout<int>(), grid_sampler<float, int, 3>},
      {kGridSampler3dDouble, grid_sampler_layout<int64_t>(), grid_sampler<double, int64_t, 3>},
      {kRoiAlign,
       layout_of_other({{4, 4},
                        {8, 8},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {1, 1},
                        {8, 8},
                        {8, 8},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4},
                        {4, 4}}),
       roi_align},
      {kDeformableCol2im, deformable_layout(), deformable_col2im},
      {kUpsampleBilinear2d,
       layout_of_other({{8, 8}, {4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4}, {1, 1}, {8, 8}, {8, 8}}),
       upsample_bilinear2d},
      {kUpsampleNearest2d,
       layout_of_other({{8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {4, 4}, {4, 4}}),
       upsample_nearest2d},
      {kScaleAdd, layout_of_other({{4, 4}, {8, 4}, {8, 8}, {8, 8}, {8, 8}}), scale_add},
      {kWhereabouts, layout_of_other({{4, 4}, {8, 8}, {8, 8}, {8, 8}, {8, 8}}), whereabouts}};
  return kernels;
}

}  // namespace msda::stand_in
