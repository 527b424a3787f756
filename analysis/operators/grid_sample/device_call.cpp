#include "analysis/operators/grid_sample/device_call.h"

namespace msda::analysis {

uint64_t GridDeviceCall::device_bytes() const {
  const msda_tensor* const tensors[] = {&call_.input, &call_.grid, &grad_output_, &grad_input_, &grad_grid_};
  uint64_t bytes = 0, elements = 0;
  for (const msda_tensor* tensor : tensors) {
    bytes += bytes_of(*tensor);
    elements += elements_of(*tensor);
  }
  // As if every tensor were widened, and grad_output once more with its channels in eights; each addend of grad_input
  // with its number; the sums of eight groups of channels; for each pixel where its addends begin
  // (kernels/cuda/grid_sample/operator.cuh).
  const auto axes = static_cast<uint64_t>(call_.input.rank) - 2;
  const uint64_t addends = elements_of(call_.grid) / axes << axes;
  const auto channels = static_cast<uint64_t>(call_.input.shape[1]),
             batches = static_cast<uint64_t>(call_.input.shape[0]);
  const uint64_t pixels = channels == 0 ? 0 : elements_of(call_.input) / channels;
  return bytes + 8 * elements + 16 * elements_of(grad_output_) + 20 * addends + 64 * elements_of(call_.grid) +
         8 * (pixels + 4 * batches);
}

std::vector<std::unique_ptr<DeviceCall>> GridDeviceCall::halves() const {
  std::vector<std::unique_ptr<DeviceCall>> two;
  const int64_t all = call_.input.shape[0], half = all / 2;
  if (all < 2) return two;
  for (const auto& [first, count] : {std::pair{int64_t{0}, half}, {half, all - half}}) {
    auto part = std::make_unique<GridDeviceCall>(*this);
    for (const auto& list : {part->inputs(), part->results()}) {
      for (msda_tensor* tensor : list) cut(*tensor, 0, first, count);
    }
    two.push_back(std::move(part));
  }
  return two;
}

}  // namespace msda::analysis
