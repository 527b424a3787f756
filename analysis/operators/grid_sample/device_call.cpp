#include "analysis/operators/grid_sample/device_call.h"

#include "analysis/model/abi.h"

namespace msda::analysis {
namespace {

// As if every tensor were widened, and grad_output once more with its channels in eights; each addend of grad_input
// with its number; the sums of eight groups of channels; for each pixel where its addends begin
// (kernels/cuda/grid_sample/operator.cuh).
uint64_t allocated_bytes(const DeviceCall& call) {
  const msda_tensor &input = call.inputs[0], &grid = call.inputs[1], &grad_output = call.inputs[2];
  uint64_t elements = 0;
  for (const auto* list : {&call.inputs, &call.results}) {
    for (const msda_tensor& tensor : *list) elements += elements_of(tensor);
  }
  const auto axes = static_cast<uint64_t>(input.rank) - 2;
  const uint64_t addends = elements_of(grid) / axes << axes;
  const auto channels = static_cast<uint64_t>(input.shape[1]), batches = static_cast<uint64_t>(input.shape[0]);
  const uint64_t pixels = channels == 0 ? 0 : elements_of(input) / channels;
  return 8 * elements + 16 * elements_of(grad_output) + 20 * addends + 64 * elements_of(grid) +
         8 * (pixels + 4 * batches);
}

}  // namespace

DeviceCall device_call_of(const GridSampleCall& call, const msda_options& options, std::span<const Tensor> results,
                          decltype(&msda_cuda_grid_sample_backward) function) {
  const GridAbiCall abi = abi_call(call);
  DeviceCall device{{abi.call.input, abi.call.grid, abi.grad_output}};
  for (const Tensor& result : results) device.results.push_back(abi_tensor(result));
  device.run = [abi, options, function](const DeviceCall& there, void* stream) {
    msda_grid_sample_call moved = abi.call;
    moved.input = there.inputs[0];
    moved.grid = there.inputs[1];
    return function(&moved, &there.inputs[2], &options, &there.results[0], &there.results[1], stream);
  };
  device.allocated = allocated_bytes;
  device.divisible = {0};
  device.least = "one batch";
  return device;
}

std::unique_ptr<DeviceCall> GridSampleCall::device_call(const msda_options& options,
                                                        std::span<const Tensor> results) const {
  return std::make_unique<DeviceCall>(device_call_of(*this, options, results));
}

}  // namespace msda::analysis
