#include "kernels/checked/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/sample.h"

namespace msda::kernels {
namespace {

// Elements of the largest tensor that is accepted: far more than fit into memory, far fewer than overflow int64.
constexpr int64_t kMaxElements = int64_t{1} << 48;

std::vector<int64_t> read_integers(const char* name, const msda_tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.dtype != MSDA_INT32 && tensor.dtype != MSDA_INT64) {
    throw InvalidArgument(fmt::format("{} has type {}, not int32 or int64", name, msda_dtype_name(tensor.dtype)));
  }
  for_each_row(sizes_of(tensor), strides_of(tensor), [&](int64_t offset, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) values.push_back(integer_at(tensor, offset + i * step));
  });
  return values;
}

std::vector<cpu::Level> read_levels(const msda_call& call, int64_t pixels) {
  check_rank_and_sizes("spatial_shapes", call.spatial_shapes, 2);
  if (call.spatial_shapes.shape[1] != 2) {
    throw InvalidArgument(fmt::format("spatial_shapes has shape {}, not [L, 2]", shape_of(call.spatial_shapes)));
  }
  const auto sides = read_integers("spatial_shapes", call.spatial_shapes);
  std::vector<cpu::Level> levels;
  int64_t start = 0;
  for (size_t l = 0; l < sides.size() / 2; ++l) {
    const int64_t height = sides[2 * l], width = sides[2 * l + 1];
    if (height < 1 || width < 1 || height > kMaxLevelSide || width > kMaxLevelSide) {
      throw InvalidArgument(
          fmt::format("spatial_shapes: level {} is {} x {}; sides go from 1 to {}", l, height, width, kMaxLevelSide));
    }
    levels.push_back({static_cast<int32_t>(height), static_cast<int32_t>(width), start});
    start += height * width;
    if (start > pixels) break;
  }
  if (start != pixels) {
    throw InvalidArgument(fmt::format("the levels do not add up: spatial_shapes hold {}{} pixels, value has {}",
                                      start > pixels ? "at least " : "", start, pixels));
  }
  if (call.level_start_index.rank == 0) return levels;
  check_exact_shape("level_start_index", call.level_start_index, {static_cast<int64_t>(levels.size())});
  const auto starts = read_integers("level_start_index", call.level_start_index);
  for (size_t l = 0; l < levels.size(); ++l) {
    if (starts[l] != levels[l].start) {
      throw InvalidArgument(fmt::format("level_start_index: level {} starts at {}, but the levels before it end at {}",
                                        l, starts[l], levels[l].start));
    }
  }
  return levels;
}

}  // namespace

std::vector<int64_t> shape_of(const msda_tensor& tensor) { return {tensor.shape, tensor.shape + tensor.rank}; }

void check_rank_and_sizes(const char* name, const msda_tensor& tensor, int rank) {
  if (tensor.rank != rank) {
    throw InvalidArgument(fmt::format("{} has rank {}, not {}", name, tensor.rank, rank));
  }
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    const int64_t size = tensor.shape[i];
    if (size < 0) throw InvalidArgument(fmt::format("{} has a negative size: {}", name, shape_of(tensor)));
    if (size > kMaxElements || (size > 0 && count > kMaxElements / size)) {
      throw InvalidArgument(fmt::format("{} is larger than any memory: {}", name, shape_of(tensor)));
    }
    count *= size;
  }
  if (count > 0 && tensor.data == nullptr) throw InvalidArgument(fmt::format("{} has no data", name));
}

void check_exact_shape(const char* name, const msda_tensor& tensor, const std::vector<int64_t>& shape) {
  check_rank_and_sizes(name, tensor, static_cast<int>(shape.size()));
  if (shape_of(tensor) != shape) {
    throw InvalidArgument(fmt::format("{} has shape {}, not {}", name, shape_of(tensor), shape));
  }
}

void check_float(const char* name, const msda_tensor& tensor) {
  if (tensor.dtype < MSDA_FLOAT16 || tensor.dtype > MSDA_FLOAT64) {
    throw InvalidArgument(fmt::format("{} has type {}, not a floating-point one", name, msda_dtype_name(tensor.dtype)));
  }
}

std::vector<int64_t> CheckedCall::stage_shape(msda_stage_id stage) const {
  std::vector<int64_t> shape = weights_shape();
  const auto with = [&](std::vector<int64_t> more) {
    shape.insert(shape.end(), more.begin(), more.end());
    return shape;
  };
  switch (stage) {
    case MSDA_STAGE_PIXEL_COORDINATES:
    case MSDA_STAGE_CELL:
    case MSDA_STAGE_GRAD_SAMPLING_LOCATIONS:
      return with({2});
    case MSDA_STAGE_INTERPOLATION_WEIGHTS:
      return with({4});
    case MSDA_STAGE_CORNER_VALUES:
    case MSDA_STAGE_VALUE_CONTRIBUTIONS:
      return with({4, D});
    case MSDA_STAGE_SAMPLED_VALUE:
      return with({D});
    case MSDA_STAGE_GRAD_ATTENTION_WEIGHTS:
      return shape;
    case MSDA_STAGE_GRAD_VALUE:
      return value_shape();
    default:
      throw InvalidArgument(fmt::format("no such stage: {}", static_cast<int>(stage)));
  }
}

void check_stages(const CheckedCall& checked, const msda_options& options,
                  const msda_tensor* const results[MSDA_STAGE_COUNT]) {
  if (options.mode == MSDA_MODE_ATOMIC) {
    throw InvalidArgument("the mode atomic has no stages; choose another mode");
  }
  for (int i = 0; i < MSDA_STAGE_COUNT; ++i) {
    if (results[i] == nullptr) continue;
    const auto stage = static_cast<msda_stage_id>(i);
    check_result(msda_stage_name(stage), *results[i], checked.stage_shape(stage));
  }
}

uint32_t float64_stages_of(const CheckedCall& checked, const msda_options& options) {
  if (checked.float64_inputs || options.mode == MSDA_MODE_FLOAT64) return kAllStages;
  return options.mode == MSDA_MODE_MIXED ? options.float64_stages : 0;
}

void check_result(const char* name, const msda_tensor& tensor, const std::vector<int64_t>& shape) {
  check_exact_shape(name, tensor, shape);
  check_float(name, tensor);
  for (int i = 0; i < tensor.rank && std::ranges::count(shape, 0) == 0; ++i) {
    if (tensor.shape[i] > 1 && tensor.stride[i] == 0) {
      throw InvalidArgument(fmt::format("{} has stride 0 in dimension {}: elements would share memory", name, i));
    }
  }
}

CheckedCall check_call(const msda_call& call, const msda_tensor* grad_output) {
  CheckedCall checked{};
  if (call.dialect < MSDA_DEFORMABLE_DETR || call.dialect > MSDA_GRID_SAMPLE) {
    throw InvalidArgument(fmt::format("no such dialect: {}", static_cast<int>(call.dialect)));
  }
  if (call.padding != MSDA_PADDING_ZEROS && call.padding != MSDA_PADDING_BORDER) {
    throw InvalidArgument(fmt::format("no such padding: {}", static_cast<int>(call.padding)));
  }
  if (call.dialect == MSDA_DEFORMABLE_DETR && (call.padding != MSDA_PADDING_ZEROS || call.align_corners)) {
    throw InvalidArgument("the dialect deformable_detr supports padding zeros and align_corners false only");
  }
  checked.dialect = call.dialect;
  checked.padding = call.padding;
  checked.align_corners = call.align_corners != 0;

  check_rank_and_sizes("value", call.value, 4);
  check_rank_and_sizes("sampling_locations", call.sampling_locations, 6);
  checked.B = call.value.shape[0];
  checked.S = call.value.shape[1];
  checked.M = call.value.shape[2];
  checked.D = call.value.shape[3];
  checked.Q = call.sampling_locations.shape[1];
  checked.L = call.spatial_shapes.rank == 2 ? call.spatial_shapes.shape[0] : 0;
  checked.P = call.sampling_locations.shape[4];
  checked.levels = read_levels(call, checked.S);
  check_exact_shape("sampling_locations", call.sampling_locations, checked.locations_shape());
  check_exact_shape("attention_weights", call.attention_weights, checked.weights_shape());
  for (const auto& [name, tensor] : {std::pair{"value", &call.value},
                                     {"sampling_locations", &call.sampling_locations},
                                     {"attention_weights", &call.attention_weights},
                                     {"grad_output", grad_output}}) {
    if (tensor == nullptr) continue;
    check_float(name, *tensor);
    checked.float64_inputs |= tensor->dtype == MSDA_FLOAT64;
  }
  if (grad_output != nullptr) check_exact_shape("grad_output", *grad_output, checked.output_shape());
  // The tensors can be small and this still overflow only if one of them is empty; then nothing is computed.
  if (checked.D > kMaxElements / 4) throw InvalidArgument(fmt::format("value has {} channels", checked.D));
  return checked;
}

}  // namespace msda::kernels
