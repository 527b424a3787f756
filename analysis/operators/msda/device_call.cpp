#include "analysis/operators/msda/device_call.h"

#include "analysis/numbers/tensor.h"

namespace msda::analysis {
namespace {

constexpr int kBatch = 0, kHead = 2;  // dimensions of every tensor except spatial_shapes and level_start_index
constexpr int kChannel = 3;           // of value

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

std::vector<msda_tensor*> MsdaDeviceCall::inputs() {
  return {&call_.value, &call_.sampling_locations, &call_.attention_weights, &grad_output_};
}

msda_status MsdaDeviceCall::run(void* stream) {
  return function_(&call_, &grad_output_, &options_, &results_[0], &results_[1], &results_[2], stream);
}

uint64_t MsdaDeviceCall::device_bytes() const {
  const msda_tensor* const inputs[] = {&call_.value, &call_.sampling_locations, &call_.attention_weights,
                                       &grad_output_};
  uint64_t bytes = 0, input_elements = 0;
  bool alike = true;
  for (const msda_tensor* input : inputs) {
    bytes += bytes_of(*input);
    input_elements += elements_of(*input);
    alike = alike && input->dtype == call_.value.dtype;
  }
  for (const msda_tensor& result : results_) bytes += bytes_of(result);
  // Inputs without a common type are widened, and 16-bit ones for float64 as well; sums that are rounded at the end
  // need memory of their own.
  const bool narrow = is_16_bits(call_.value.dtype);
  if (!alike || (narrow && options_.mode == MSDA_MODE_FLOAT64)) bytes += 8 * input_elements;
  if (options_.mode == MSDA_MODE_ATOMIC) bytes += 8 * elements_of(call_.value);
  // Samples in the order of their cells, the beginnings of the cells, and the four sums of every run of 32 samples of a
  // cell, each with 32 channels (kernels/cuda/msda/operator.cuh), as if all were float64.
  const uint64_t samples = elements_of(call_.attention_weights);
  const uint64_t heads = bytes == 0 ? 0 : static_cast<uint64_t>(call_.value.shape[kBatch] * call_.value.shape[kHead]);
  const uint64_t channels = static_cast<uint64_t>(call_.value.shape[kChannel]), run_bytes = (channels + 31) / 32 * 1024;
  return bytes + 48 * samples + (run_bytes + 16) * (heads * cells_of(call_.spatial_shapes) + samples / 32);
}

std::vector<std::unique_ptr<DeviceCall>> MsdaDeviceCall::halves() const {
  std::vector<std::unique_ptr<DeviceCall>> two;
  const int dimension = call_.value.shape[kBatch] > 1 ? kBatch : kHead;
  const int64_t all = call_.value.shape[dimension], half = all / 2;
  if (all < 2) return two;
  for (const auto& [first, count] : {std::pair{int64_t{0}, half}, {half, all - half}}) {
    auto part = std::make_unique<MsdaDeviceCall>(*this);
    for (const auto& list : {part->inputs(), part->results()}) {
      for (msda_tensor* tensor : list) cut(*tensor, dimension, first, count);
    }
    two.push_back(std::move(part));
  }
  return two;
}

}  // namespace msda::analysis
