#include "replay/gpu/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace msda::replay {
namespace {

constexpr int kBatch = 0, kHead = 2;  // dimensions of every tensor except spatial_shapes and level_start_index
constexpr int kChannel = 3;           // of value

uint64_t size_of(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_FLOAT16:
    case MSDA_BFLOAT16:
      return 2;
    case MSDA_FLOAT64:
    case MSDA_INT64:
      return 8;
    default:
      return 4;
  }
}

uint64_t elements_of(const msda_tensor& tensor) {
  uint64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= static_cast<uint64_t>(tensor.shape[i]);
  return count;
}

uint64_t bytes_of(const msda_tensor& tensor) { return elements_of(tensor) * size_of(tensor.dtype); }

void cut(msda_tensor& tensor, const Slice& slice) {
  const int64_t first = slice.batch * tensor.stride[kBatch] + slice.head * tensor.stride[kHead];
  if (tensor.data != nullptr) {
    tensor.data = static_cast<char*>(tensor.data) + first * static_cast<int64_t>(size_of(tensor.dtype));
  }
  tensor.shape[kBatch] = slice.batches;
  tensor.shape[kHead] = slice.heads;
}

// Cells of all levels: one more than pixels along each side.
uint64_t cells_of(const msda_tensor& spatial_shapes) {
  const auto side = [&](int64_t level, int64_t axis) {
    const int64_t at = level * spatial_shapes.stride[0] + axis * spatial_shapes.stride[1];
    return static_cast<uint64_t>(spatial_shapes.dtype == MSDA_INT32
                                     ? static_cast<const int32_t*>(spatial_shapes.data)[at]
                                     : static_cast<const int64_t*>(spatial_shapes.data)[at]);
  };
  uint64_t cells = 0;
  for (int64_t l = 0; l < spatial_shapes.shape[0]; ++l) cells += (side(l, 0) + 1) * (side(l, 1) + 1);
  return cells;
}

}  // namespace

Backward part_of(const Backward& whole, const Slice& slice) {
  Backward part = whole;
  for (msda_tensor* tensor :
       {&part.call.value, &part.call.sampling_locations, &part.call.attention_weights, &part.grad_output}) {
    cut(*tensor, slice);
  }
  for (msda_tensor& result : part.results) cut(result, slice);
  return part;
}

gpu::Rows rows_of(const msda_tensor& part) {
  const uint64_t size = size_of(part.dtype), bytes = bytes_of(part);
  if (bytes == 0) return {0, 0, 0};
  const auto count = static_cast<uint64_t>(part.shape[0] * part.shape[1]);
  const gpu::Rows rows{count, bytes / count, static_cast<uint64_t>(part.stride[1]) * size};
  return rows.width == rows.pitch ? gpu::Rows{1, bytes, bytes} : rows;
}

uint64_t device_bytes(const Backward& backward) {
  const msda_call& call = backward.call;
  const msda_tensor* const inputs[] = {&call.value, &call.sampling_locations, &call.attention_weights,
                                       &backward.grad_output};
  uint64_t bytes = 0, input_elements = 0;
  bool alike = true;
  for (const msda_tensor* input : inputs) {
    bytes += bytes_of(*input);
    input_elements += elements_of(*input);
    alike = alike && input->dtype == call.value.dtype;
  }
  for (const msda_tensor& result : backward.results) bytes += bytes_of(result);
  // Inputs without a common type are widened, and 16-bit ones for float64 as well; sums that are rounded at the end
  // need memory of their own.
  const bool as_they_are = alike && (size_of(call.value.dtype) > 2 || backward.options.mode != MSDA_MODE_FLOAT64);
  if (!as_they_are) bytes += 8 * input_elements;
  if (backward.options.mode == MSDA_MODE_ATOMIC) bytes += 8 * elements_of(call.value);
  // Samples in the order of their cells, the beginnings of the cells, and the four sums of every run of 32 samples of a
  // cell, each with 32 channels (kernels/cuda/operator.cuh), as if all were float64.
  const uint64_t samples = elements_of(call.attention_weights);
  const uint64_t heads = bytes == 0 ? 0 : static_cast<uint64_t>(call.value.shape[kBatch] * call.value.shape[kHead]);
  const uint64_t channels = static_cast<uint64_t>(call.value.shape[kChannel]), run_bytes = (channels + 31) / 32 * 1024;
  return bytes + 48 * samples + (run_bytes + 16) * (heads * cells_of(call.spatial_shapes) + samples / 32);
}

void run_in_slices(const Backward& whole, uint64_t budget, const std::function<bool(const Backward&)>& run) {
  bool refused = false;
  std::vector<Slice> left{{0, whole.call.value.shape[kBatch], 0, whole.call.value.shape[kHead]}};
  while (!left.empty()) {
    const Slice slice = left.back();
    left.pop_back();
    const Backward part = part_of(whole, slice);
    const uint64_t bytes = device_bytes(part);
    if (bytes <= budget) {
      if (run(part)) continue;
      budget = bytes - std::min<uint64_t>(bytes, 1);
      refused = true;
    }
    Slice first = slice, second = slice;
    if (slice.batches > 1) {
      first.batches /= 2;
      second.batch += first.batches;
      second.batches -= first.batches;
    } else if (slice.heads > 1) {
      first.heads /= 2;
      second.head += first.heads;
      second.heads -= first.heads;
    } else {
      throw TooLarge(fmt::format("one head of one batch needs up to {} bytes of its memory, {}", bytes,
                                 refused ? "which it refuses" : fmt::format("and {} are available", budget)));
    }
    left.push_back(second);
    left.push_back(first);
  }
}

}  // namespace msda::replay
