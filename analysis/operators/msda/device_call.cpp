#include "analysis/operators/msda/device_call.h"

#include "analysis/model/abi.h"

namespace msda::analysis {
namespace {

constexpr int kBatch = 0, kHead = 2;  // dimensions of every tensor except spatial_shapes and level_start_index
constexpr int kChannel = 3;           // of value

// Cells of all levels: one more than pixels along each side.
uint64_t cells_of(const MsdaCall& call) {
  uint64_t cells = 0;
  for (const LevelSize& level : call.levels) cells += uint64_t(level.height + 1) * uint64_t(level.width + 1);
  return cells;
}

uint64_t allocated_bytes(const DeviceCall& call, const msda_options& options, uint64_t cells) {
  const msda_tensor &value = call.inputs[0], &attention = call.inputs[2];
  uint64_t bytes = 0, input_elements = 0;
  bool alike = true;
  for (const msda_tensor& input : call.inputs) {
    input_elements += elements_of(input);
    alike = alike && input.dtype == value.dtype;
  }
  // Inputs without a common type are widened, and 16-bit ones for float64 as well; sums that are rounded at the end
  // need memory of their own.
  if (!alike || (is_16_bits(value.dtype) && options.mode == MSDA_MODE_FLOAT64)) bytes += 8 * input_elements;
  if (options.mode == MSDA_MODE_ATOMIC) bytes += 8 * elements_of(value);
  // Samples in the order of their cells, the beginnings of the cells, and the four sums of every run of 32 samples of a
  // cell, each with 32 channels (kernels/cuda/msda/operator.cuh), as if all were float64.
  const uint64_t samples = elements_of(attention);
  const uint64_t heads = input_elements == 0 ? 0 : static_cast<uint64_t>(value.shape[kBatch] * value.shape[kHead]);
  const uint64_t channels = static_cast<uint64_t>(value.shape[kChannel]), run_bytes = (channels + 31) / 32 * 1024;
  return bytes + 48 * samples + (run_bytes + 16) * (heads * cells + samples / 32);
}

}  // namespace

DeviceCall device_call_of(const MsdaCall& call, const msda_options& options, std::span<const Tensor> results,
                          decltype(&msda_cuda_backward) function) {
  const AbiCall abi = abi_call(call);
  DeviceCall device{{abi.call.value, abi.call.sampling_locations, abi.call.attention_weights, abi.grad_output}};
  for (const Tensor& result : results) device.results.push_back(abi_tensor(result));
  device.run = [abi, options, function](const DeviceCall& there, void* stream) {
    msda_call moved = abi.call;
    moved.value = there.inputs[0];
    moved.sampling_locations = there.inputs[1];
    moved.attention_weights = there.inputs[2];
    const auto& gradients = there.results;
    return function(&moved, &there.inputs[3], &options, &gradients[0], &gradients[1], &gradients[2], stream);
  };
  const uint64_t cells = cells_of(call);
  device.allocated = [options, cells](const DeviceCall& there) { return allocated_bytes(there, options, cells); };
  device.divisible = {kBatch, kHead};
  device.least = "one head of one batch";
  return device;
}

std::unique_ptr<DeviceCall> MsdaCall::device_call(const msda_options& options, std::span<const Tensor> results) const {
  return std::make_unique<DeviceCall>(device_call_of(*this, options, results));
}

}  // namespace msda::analysis
