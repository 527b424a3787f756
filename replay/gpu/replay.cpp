#include "replay/gpu/replay.h"

#include <algorithm>
#include <vector>

namespace msda::replay {
namespace {

constexpr uint64_t kAlignment = 256;

// A tensor of a part, and its offset on the device.
struct Placed {
  msda_tensor* tensor;
  void* host;
  gpu::Rows rows;
  uint64_t offset;
};

msda_tensor contiguous(const msda_tensor& tensor, gpu::DevicePointer address) {
  return msda_contiguous(reinterpret_cast<void*>(static_cast<uintptr_t>(address)), tensor.dtype, tensor.rank,
                         tensor.shape);
}

}  // namespace

void GpuReplay::open() {
  if (device_) return device_->enter();
  device_.emplace(gpu_);
  // A tenth is left to the driver and to other programs.
  const uint64_t free = device_->free_memory() / 10 * 9;
  budget_ = (memory_ == 0 ? free : std::min(free, memory_)) / shares_;
}

void GpuReplay::run(const Backward& backward) {
  open();
  try {
    run_in_slices(backward, budget_, [&](const Backward& part) { return run_part(part); });
  } catch (...) {
    device_->api().cuStreamSynchronize(device_->stream());  // afterwards the host's tensors may be freed
    throw;
  }
}

// False if the memory did not suffice.
bool GpuReplay::run_part(const Backward& part) {
  Backward there = part;
  std::vector<Placed> inputs, outputs;
  uint64_t bytes = 0;
  const auto place = [&](std::vector<Placed>& list, msda_tensor& tensor) {
    list.push_back({&tensor, tensor.data, rows_of(tensor), bytes});
    bytes += (list.back().rows.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (msda_tensor* input :
       {&there.call.value, &there.call.sampling_locations, &there.call.attention_weights, &there.grad_output}) {
    place(inputs, *input);
  }
  for (msda_tensor& result : there.results) place(outputs, result);
  try {
    if (bytes > capacity_) {
      capacity_ = 0;
      tensors_ = {};
      tensors_ = gpu::DeviceMemory(*device_, bytes);
      capacity_ = bytes;
    }
    for (const auto* list : {&inputs, &outputs}) {
      for (const Placed& placed : *list)
        *placed.tensor = contiguous(*placed.tensor, tensors_.address() + placed.offset);
    }
    for (const Placed& placed : inputs) device_->copy_in(placed.host, placed.rows, tensors_.address() + placed.offset);
    const msda_status status = backward_(&there.call, &there.grad_output, &there.options, &there.results[0],
                                         &there.results[1], &there.results[2], device_->stream());
    if (status == MSDA_OUT_OF_MEMORY) throw gpu::Failure(gpu::kOutOfMemory, msda_last_error());
    if (status != MSDA_OK) throw std::runtime_error(msda_last_error());
    for (const Placed& placed : outputs)
      device_->copy_out(tensors_.address() + placed.offset, placed.host, placed.rows);
    device_->wait();
    return true;
  } catch (const gpu::Failure& e) {
    if (e.result != gpu::kOutOfMemory) throw;
    device_->wait();
    capacity_ = 0;
    tensors_ = {};
    return false;
  }
}

}  // namespace msda::replay
