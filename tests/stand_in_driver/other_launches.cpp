#include "tests/stand_in_driver/other_launches.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <type_traits>

#include "tests/stand_in_driver/client_numbers.h"
#include "tests/stand_in_driver/other_kernels.h"
#include "tests/stand_in_driver/poison_kernels.h"
#include "tests/stand_in_driver/scatter_kernels.h"

namespace msda::stand_in {
namespace {

// A stream of its own, and the memory of one launch.
class Stage {
 public:
  explicit Stage(const Client& client) : client_(client) {
    client_.check(client_.api().cuStreamCreate(&stream_, kStreamNonBlocking));
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    for (const CUdeviceptr pointer : memory_) client_.api().cuMemFree_v2(pointer);
    client_.api().cuStreamDestroy_v2(stream_);
  }

  // Launches the kernel and waits for it.
  void run(const OtherLaunch& launch, CUfunction kernel, Extent grid, Extent block,
           std::span<const Argument> arguments) const {
    client_.launch(launch.way, kernel, grid, block, stream_, arguments);
    client_.check(client_.api().cuStreamSynchronize(stream_));
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    memory_.push_back(client_.upload(values));
    return reinterpret_cast<T*>(memory_.back());
  }

  // Other values in the same memory.
  template <class T>
  void replace(const T* memory, const std::vector<T>& values) const {
    client_.check(
        client_.api().cuMemcpyHtoD_v2(reinterpret_cast<CUdeviceptr>(memory), values.data(), values.size() * sizeof(T)));
  }

  template <class T>
  std::string described(const OtherLaunch& launch, const char* name, const T* pointer, size_t count) const {
    const auto values = client_.download<T>(reinterpret_cast<CUdeviceptr>(pointer), count);
    return line(launch.number, name, checksum(values.data(), count * sizeof(T)));
  }

 private:
  const Client& client_;
  CUstream stream_ = nullptr;
  std::vector<CUdeviceptr> memory_;
};

template <class Index>
Index count_of(const std::vector<Index>& shape) {
  return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
}

}  // namespace

template <class T, int kAxes>
std::string launch_grid_sampler(const Client& client, const OtherLaunch& launch) {
  using Index = std::conditional_t<std::is_same_v<T, double>, int64_t, int>;
  using Shape = std::vector<Index>;
  const bool flat = kAxes == 2, wide = std::is_same_v<T, double>;
  const Shape pixels = flat ? Shape{2, 3, 5, 4} : Shape{2, 3, 3, 5, 4}, samples = flat ? Shape{3, 6} : Shape{2, 3, 6};
  Shape results{2, 3}, places{2};
  results.insert(results.end(), samples.begin(), samples.end());
  places.insert(places.end(), samples.begin(), samples.end());
  const Index n = count_of(places);
  places.push_back(kAxes);
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const auto info = [](T* data, const Shape& shape) {
    TensorInfo<T, Index> tensor{data, {}, {}, static_cast<int>(shape.size())};
    for (int i = 0; i < 25; ++i) tensor.sizes[i] = tensor.strides[i] = static_cast<Index>(-77 - i);  // never set
    std::copy(shape.begin(), shape.end(), tensor.sizes);
    Index stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) tensor.strides[i] = stride;
    return tensor;
  };
  const auto drawn = [&](const Shape& shape, double bound, Index gap = 1) {
    return stage.upload(uniform<T>(random, static_cast<size_t>(count_of(shape) * gap), -bound, bound));
  };
  const auto filled = [&](const Shape& shape, T value) {
    return stage.upload(std::vector<T>(static_cast<size_t>(count_of(shape)), value));
  };
  // Every fourth launch takes a slice of a larger tensor, like one level's gradient among several.
  const Index gap = launch.number % 4 == 1 ? 3 : 1;
  auto grad_output = info(drawn(results, 1, gap) + (gap - 1), results);
  for (size_t i = 0; i < results.size(); ++i) grad_output.strides[i] *= gap;
  const auto input = info(drawn(pixels, 1), pixels), grid = info(drawn(places, 1.3), places);
  auto grad_input = info(filled(pixels, 0), pixels);
  const auto grad_grid = info(filled(places, 7), places);
  const int padding = launch.number % 3, interpolation = launch.number / 6 % 2;
  const bool align_corners = launch.number / 3 % 2 == 1, input_requires_grad = launch.number % 5 != 4;
  T* const sums = grad_input.data;
  if (!input_requires_grad) grad_input = {};
  const Index span = input_requires_grad ? count_of(pixels) : 0;
  const Argument arguments[] = {
      n,    grad_output,        input, grid, grad_input, grad_grid, interpolation, padding, align_corners,
      span, input_requires_grad};
  const CUfunction function = launch.load(client, flat   ? wide ? kGridSamplerDouble : kGridSamplerFloat
                                                  : wide ? kGridSampler3dDouble
                                                         : kGridSampler3dFloat);
  stage.run(launch, function, {1}, {256}, arguments);
  return stage.described(launch, "grad_input", sums, static_cast<size_t>(count_of(pixels))) +
         stage.described(launch, "grad_grid", grad_grid.data, static_cast<size_t>(count_of(places)));
}

template std::string launch_grid_sampler<float, 2>(const Client&, const OtherLaunch&);
template std::string launch_grid_sampler<double, 2>(const Client&, const OtherLaunch&);
template std::string launch_grid_sampler<float, 3>(const Client&, const OtherLaunch&);
template std::string launch_grid_sampler<double, 3>(const Client&, const OtherLaunch&);

std::string launch_roi_align(const Client& client, const OtherLaunch& launch) {
  const int batches = 2, channels = 3, height = 8, width = 10, rows = 2, columns = 3, points = 2, boxes = 5;
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const int threads = boxes * channels * rows * columns, span = batches * channels * height * width;
  const float* const grad_output = stage.upload(uniform<float>(random, static_cast<size_t>(threads), -1, 1));
  std::vector<float> places = uniform<float>(random, static_cast<size_t>(5 * boxes), 0, 30);
  for (int box = 0; box < boxes; ++box) {
    float* const at = &places[static_cast<size_t>(5 * box)];
    at[0] = static_cast<float>(box % batches);
    at[3] += at[1];
    at[4] += at[2];
  }
  const float* const where = stage.upload(places);
  float* const grad_input = stage.upload(std::vector<float>(static_cast<size_t>(span), 0));
  const bool aligned = launch.number % 3 != 0;
  const float scale = 0.25f;
  const int per_box = channels * rows * columns, per_channel = rows * columns, one = 1;
  const Argument arguments[] = {threads, grad_output, scale, channels, height,      width,   rows, columns, points,
                                aligned, grad_input,  where, per_box,  per_channel, columns, one,  span};
  stage.run(launch, launch.load(client, kRoiAlign), {1}, {512}, arguments);
  return stage.described(launch, "grad_input", grad_input, static_cast<size_t>(span));
}

std::string launch_deform_conv2d(const Client& client, const OtherLaunch& launch) {
  const int64_t channels = 4, height = 7, width = 6, taps[] = {3, 2}, padding[] = {1, 2}, stride[] = {2, 1},
                dilation[] = {1, 2}, images = 2, groups = 2, rows = 4, places = 8;
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const int64_t samples = images * groups * taps[0] * taps[1] * rows * places, threads = samples / groups * channels;
  const auto drawn = [&](int64_t count, double bound) {
    return stage.upload(uniform<float>(random, static_cast<size_t>(count), -bound, bound));
  };
  const float *const columns = drawn(threads, 1), *const offset = drawn(2 * samples, 2),
                     *const mask = drawn(samples, 1);
  const auto pixels = static_cast<size_t>(images * channels * height * width);
  float* const grad_input = stage.upload(std::vector<float>(pixels, 0));
  const bool has_mask = launch.number % 2 == 0;
  const Argument arguments[] = {threads,     columns, offset,     mask,       channels,  height,    width,
                                taps[0],     taps[1], padding[0], padding[1], stride[0], stride[1], dilation[0],
                                dilation[1], images,  groups,     rows,       places,    has_mask,  grad_input};
  stage.run(launch, launch.load(client, kDeformableCol2im), {1}, {512}, arguments);
  return stage.described(launch, "grad_input", grad_input, pixels);
}

std::string launch_upsample_bilinear2d(const Client& client, const OtherLaunch& launch) {
  const uint64_t planes = 6;
  const int in[] = {4, 5}, out[] = {7, 15};
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const float* const grad_output = stage.upload(uniform<float>(random, planes * 7 * 15, -1, 1));
  float* const grad_input = stage.upload(std::vector<float>(planes * 4 * 5, 0));
  const bool aligned = launch.number % 2 == 1;
  const float rows = aligned ? 3.0f / 6 : launch.number % 4 == 2 ? 0.55f : 4.0f / 7;
  const float columns = aligned ? 4.0f / 14 : 5.0f / 15;
  const Argument arguments[] = {planes, in[0], in[1], out[0], out[1], rows, columns, aligned, grad_input, grad_output};
  stage.run(launch, launch.load(client, kUpsampleBilinear2d), {1}, {256}, arguments);
  return stage.described(launch, "grad_input", grad_input, planes * 4 * 5);
}

std::string launch_upsample_nearest2d(const Client& client, const OtherLaunch& launch) {
  const uint64_t batches = 2, channels = 3, out[] = {8, 15}, in[] = {4, 5};
  const float rows = 2, columns = 3;
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const float* const grad_output = stage.upload(uniform<float>(random, 6 * 8 * 15, -1, 1));
  float* const grad_input = stage.upload(std::vector<float>(6 * 4 * 5, 7));
  const Argument arguments[] = {grad_output, batches, channels,   out[0], out[1],
                                in[0],       in[1],   grad_input, rows,   columns};
  stage.run(launch, launch.load(client, kUpsampleNearest2d), {1}, {256}, arguments);
  return stage.described(launch, "grad_input", grad_input, 6 * 4 * 5);
}

namespace {

constexpr int kRows = 9, kSources = 20, kChannels = 5;

// The last row, or the one before, is always among them.
std::vector<int64_t> indices(const OtherLaunch& launch, int again = 0) {
  std::mt19937_64 random(launch.seed + 1000 * static_cast<uint64_t>(launch.number) + static_cast<uint64_t>(again) * 77);
  std::vector<int64_t> all(kSources);
  for (int64_t& index : all) index = static_cast<int64_t>(random() % kRows);
  all[7] = kRows - 1 - again % 2;
  return all;
}

// As a framework's allocator gives each step of a program the memory of the one before.
void launch_again(const Client& client, const OtherLaunch& launch, const char* kernel, Stage& stage,
                  std::span<const Argument> arguments, const std::function<void(int)>& prepare) {
  const CUfunction function = launch.load(client, kernel);
  for (int again = 0; again < launch.repeat; ++again) {
    if (again > 0) prepare(again);
    stage.run(launch, function, {1}, {128}, arguments);
  }
}

}  // namespace

std::string launch_index_add(const Client& client, const OtherLaunch& launch) {
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const auto info = [](auto* data, int rows, int channels) {
    TensorInfo<std::remove_pointer_t<decltype(data)>, int> tensor{data, {rows, channels}, {channels, 1}, 2};
    return tensor;
  };
  float* const sums = stage.upload(uniform<float>(random, kRows * kChannels, -1, 1));
  const auto sum = info(sums, 1, kChannels);
  const auto source = info(stage.upload(uniform<float>(random, kSources * kChannels, -1, 1)), 1, kChannels);
  auto index = info(stage.upload(indices(launch)), kSources, 1);
  index.dims = 1;
  const int dim = 0;
  const uint32_t total = kSources * kChannels, inner = kChannels;
  const int64_t rows = kRows, elements = kRows * kChannels;
  const void* const op = &dim;  // of the host
  const float alpha = 1;
  const Argument arguments[] = {sum, source, index, dim, dim, total, inner, rows, elements, op, alpha};
  launch_again(client, launch, kIndexAdd, stage, arguments,
               [&](int again) { stage.replace(index.data, indices(launch, again)); });
  return stage.described(launch, "sum", sums, kRows * kChannels);
}

std::string launch_index_put(const Client& client, const OtherLaunch& launch) {
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  std::vector<int64_t> from(kSources), sorted(kSources);
  const auto sort = [&](const std::vector<int64_t>& index) {
    const auto index_of = [&](int64_t source) { return index[static_cast<size_t>(source)]; };
    std::iota(from.begin(), from.end(), int64_t{0});
    std::ranges::stable_sort(from, {}, index_of);
    std::ranges::transform(from, sorted.begin(), index_of);
  };
  sort(indices(launch));
  const int64_t *const where = stage.upload(sorted), *const rows = stage.upload(from);
  const float* const source = stage.upload(uniform<float>(random, kSources * kChannels, -1, 1));
  float* const sum = stage.upload(uniform<float>(random, kRows * kChannels, -1, 1));
  const int64_t count = kSources, channels = kChannels, outer_stride = 0, outer = 1;
  const bool accumulate = true;
  const Argument arguments[] = {where, rows, source, sum, count, channels, outer_stride, outer, accumulate};
  launch_again(client, launch, kIndexPut, stage, arguments, [&](int again) {
    sort(indices(launch, again));
    stage.replace(where, sorted);
    stage.replace(rows, from);
  });
  return stage.described(launch, "sum", sum, kRows * kChannels);
}

std::string launch_embedding(const Client& client, const OtherLaunch& launch) {
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const int64_t* const index = stage.upload(indices(launch));
  const float* const source = stage.upload(uniform<float>(random, kSources * kChannels, -1, 1));
  float* const sum = stage.upload(std::vector<float>(kRows * kChannels, 0));
  const int count = kSources, padding = launch.number % 2 == 1 ? 3 : -1;
  const int64_t channels = kChannels;
  const Argument arguments[] = {index, source, sum, count, channels, padding};
  launch_again(client, launch, kEmbedding, stage, arguments,
               [&](int again) { stage.replace(index, indices(launch, again)); });
  return stage.described(launch, "sum", sum, kRows * kChannels);
}

std::string launch_scale_add(const Client& client, const OtherLaunch& launch) {
  const int rows = 6 + launch.number, columns = 5;
  const auto count = static_cast<size_t>(rows * columns);
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const float* const x = stage.upload(uniform<float>(random, count, -1, 1));
  float* const y = stage.upload(uniform<float>(random, count, -1, 1));
  unsigned char* const positive = stage.upload(std::vector<unsigned char>(count, 0xFF));
  const Scale scale{columns, 0.5f};
  const Argument arguments[] = {rows, scale, x, y, positive};
  stage.run(launch, launch.load(client, kScaleAdd), {2}, {64}, arguments);
  return stage.described(launch, "y", y, count) + stage.described(launch, "positive", positive, count);
}

// All in one allocation, as a framework's pool has tensors, and at no round address.
std::string launch_whereabouts(const Client& client, const OtherLaunch& launch) {
  constexpr int kCount = 7;
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  float* const pool = stage.upload(uniform<float>(random, 4096, -1, 1));
  const float *const x = pool + 3, *const y = x + 1;
  float* const sums = pool + 1000 + 5 * launch.number;
  auto* const places = reinterpret_cast<int64_t*>(pool + 2006);
  const Argument arguments[] = {kCount, x, y, sums, places};
  stage.run(launch, launch.load(client, kWhereabouts), {1}, {32}, arguments);
  return stage.described(launch, "pool", pool, 4096);
}

// y is zero for those kernels that the caller lets add to it; scratch is fresh memory, and lies in the allocation of y.
std::string launch_poison(const Client& client, const OtherLaunch& launch) {
  constexpr int kCount = 256;
  std::mt19937_64 random(launch.seed);
  Stage stage(client);
  const float* const x = stage.upload(uniform<float>(random, kCount + 4, -1, 1));  // one of them reads behind its x
  float* const y = stage.upload(std::vector<float>(2 * kCount, 0));
  float* const scratch = y + kCount;
  const Argument arguments[] = {kCount, x, y, scratch};
  const std::string name = poison_kernel_name(launch.which.substr(launch.which.find('_') + 1));
  stage.run(launch, launch.load(client, name), {1}, {256}, arguments);
  return stage.described(launch, "y", y, kCount);
}

}  // namespace msda::stand_in
