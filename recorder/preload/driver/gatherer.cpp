#include "recorder/preload/driver/gatherer.h"

#include "recorder/adapters/made_once.h"

namespace msda::record {

Gatherer& Gatherer::instance() {
  static constinit MadeOnce<Gatherer> gatherer;
  return gatherer.get([] { return std::unique_ptr<Gatherer>(new Gatherer); });
}

bool Gatherer::works() noexcept {
  const std::lock_guard lock(mutex_);
  return !fails_;
}

bool Gatherer::launch(GatherTable& table, cuda::Stream stream) {
  auto parameters = table.parameters();
  return kernel_.launch(table.blocks(), 1, kGatherThreads, stream, parameters) == cuda::kSuccess;
}

bool Gatherer::start(const tensors::RowMajorCopy& copy, cuda::DevicePointer from, std::byte* to,
                     cuda::Stream stream) noexcept {
  // Writing to memory that the device cannot reach would be an error from which the program's context does not recover.
  const auto device_pointer = cuda::driver().host_device_pointer;
  cuda::DevicePointer target = 0;
  const bool reached = device_pointer != nullptr && device_pointer(&target, to, 0) == cuda::kSuccess;
  GatherTable table(from, target, static_cast<uint64_t>(copy.piece));
  bool fits = true;
  for (size_t i = 0; i < copy.shape.size(); ++i) {
    fits = fits && table.add(static_cast<uint64_t>(copy.shape[i]), static_cast<uint64_t>(copy.strides[i]));
  }
  const std::lock_guard lock(mutex_);
  const bool started = reached && fits && kernel_.is_loaded() && launch(table, stream);
  fails_ = fails_ || !started;
  return started;
}

void Gatherer::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  fails_ = false;
}

}  // namespace msda::record
