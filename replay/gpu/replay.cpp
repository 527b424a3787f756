#include "replay/gpu/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <vector>

#include "kernels/names.h"

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

// Returns the memory layout of a tensor of a part.
gpu::Rows rows_of(const msda_tensor& part) {
  const auto size = static_cast<uint64_t>(kernels::bytes_of(part.dtype)), bytes = analysis::bytes_of(part);
  if (bytes == 0) return {0, 0, 0};
  const auto count = static_cast<uint64_t>(part.shape[0] * part.shape[1]);
  const gpu::Rows rows{count, bytes / count, static_cast<uint64_t>(part.stride[1]) * size};
  return rows.width == rows.pitch ? gpu::Rows{1, bytes, bytes} : rows;
}

}  // namespace

void GpuReplay::open() {
  if (device_) return device_->enter();
  device_.emplace(gpu_);
  // A tenth is left to the driver and to other programs.
  const uint64_t free = device_->free_memory() / 10 * 9;
  budget_ = (memory_ == 0 ? free : std::min(free, memory_)) / shares_;
}

// Runs the call, or halves, quarters, ... of it that take no more than the budget. Where the device refuses the memory
// for one all the same, further parts are smaller.
void GpuReplay::run(const analysis::DeviceCall& call) {
  open();
  uint64_t budget = budget_;
  bool refused = false;
  std::vector<analysis::DeviceCall> left{call};
  try {
    while (!left.empty()) {
      const analysis::DeviceCall part = std::move(left.back());
      left.pop_back();
      const uint64_t bytes = part.device_bytes();
      if (bytes <= budget) {
        if (run_part(part)) continue;
        budget = bytes - std::min<uint64_t>(bytes, 1);
        refused = true;
      }
      auto halves = part.halves();
      if (halves.empty()) {
        throw std::runtime_error(
            fmt::format("{} needs up to {} bytes of its memory, {}", part.least, bytes,
                        refused ? "which it refuses" : fmt::format("and {} are available", budget)));
      }
      for (auto& half : std::views::reverse(halves)) left.push_back(std::move(half));
    }
  } catch (...) {
    device_->driver().synchronize(device_->stream());  // afterwards the host's tensors may be freed
    throw;
  }
}

// False if the memory did not suffice.
bool GpuReplay::run_part(const analysis::DeviceCall& part) {
  analysis::DeviceCall there = part;
  std::vector<Placed> inputs, outputs;
  uint64_t bytes = 0;
  const auto place = [&](std::vector<Placed>& list, msda_tensor& tensor) {
    list.push_back({&tensor, tensor.data, rows_of(tensor), bytes});
    bytes += (list.back().rows.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (msda_tensor& input : there.inputs) place(inputs, input);
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
    const msda_status status = there.run(there, device_->stream());
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
