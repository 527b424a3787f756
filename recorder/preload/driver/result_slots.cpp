#include "recorder/preload/driver/result_slots.h"

#include <sys/mman.h>

#include <atomic>

#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

// Clears the memory before it returns, on a stream of its own: work on the legacy stream may run after a launch on
// another stream.
cuda::Result set_to_zero(cuda::DevicePointer memory, size_t bytes) {
  const cuda::Driver& driver = cuda::driver();
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  cuda::Stream stream = nullptr;
  cuda::Result result = driver.create_stream(&stream, kNonBlocking);
  if (result != cuda::kSuccess) return result;
  result = driver.set_bytes(memory, 0, bytes, stream);
  if (result == cuda::kSuccess) result = driver.synchronize(stream);
  const cuda::Result destroyed = driver.destroy_stream(stream);
  return result == cuda::kSuccess ? destroyed : result;
}

}  // namespace

[[gnu::cold]] std::string in_brackets(cuda::Result error) { return " (error " + std::to_string(error) + ")"; }

bool ResultSlots::is_complete(uint64_t* slot, uint64_t sequence) {
  return std::atomic_ref(*slot).load(std::memory_order_acquire) == sequence;
}

bool ResultSlots::map() {
  if (memory_ != nullptr) return true;
  const size_t bytes = slots_ * slot_bytes_;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  madvise(memory, bytes, MADV_DONTFORK);  // pinned pages must not be copied on a fork
  memory_ = static_cast<std::byte*>(memory);
  free_.reserve(slots_);
  late_.reserve(slots_);
  for (size_t i = 0; i < slots_; ++i) free_.push_back(reinterpret_cast<uint64_t*>(memory_ + i * slot_bytes_));
  return true;
}

bool ResultSlots::pin(std::string& failure) {
  if (is_pinned_) return true;
  if (!map()) {
    failure = "there is no memory for the recorder's digests";
    return false;
  }
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: for every context
  constexpr cuda::Result kAlreadyRegistered = 712;
  const cuda::Result result = cuda::driver().host_register(memory_, slots_ * slot_bytes_, kPortable);
  if (result != cuda::kSuccess && result != kAlreadyRegistered) {
    failure = "the driver refuses the recorder's digests" + in_brackets(result);
    return false;
  }
  cuda::note_own(memory_);
  return is_pinned_ = true;
}

// Returns 0 if it cannot be allocated. Runs once for each context: kept apart from what every launch runs.
[[gnu::cold]] cuda::DevicePointer ResultSlots::allocate(cuda::Context context, std::string& failure) {
  cuda::DevicePointer memory = 0;
  cuda::Result result = cuda::allocate_own(memory, slots_ * slot_bytes_);
  if (result == cuda::kSuccess) result = set_to_zero(memory, slots_ * slot_bytes_);
  if (result != cuda::kSuccess) {
    failure = "no device memory for the recorder's digests" + in_brackets(result);
    return 0;
  }
  return on_device_[context] = memory;
}

[[gnu::hot]] bool ResultSlots::prepare(std::string& failure) {
  if (!is_pinned_ && !pin(failure)) return false;
  cuda::Context context = nullptr;
  if (const cuda::Result result = cuda::driver().current_context(&context); result != cuda::kSuccess) {
    failure = "the recorder's digests have no context" + in_brackets(result);
    return false;
  }
  const auto found = on_device_.find(context);
  here_ = found != on_device_.end() ? found->second : allocate(context, failure);
  return here_ != 0;
}

[[gnu::hot]] cuda::DevicePointer ResultSlots::on_device(const uint64_t* slot) const {
  return here_ + static_cast<uint64_t>(reinterpret_cast<const std::byte*>(slot) - memory_);
}

[[gnu::hot]] uint64_t* ResultSlots::free_slot() {
  if (free_.empty()) {
    std::erase_if(late_, [this](const Late& late) {
      const bool is_done = is_complete(late.slot, late.sequence);
      if (is_done) free_.push_back(late.slot);
      return is_done;
    });
  }
  return free_.empty() ? nullptr : free_.back();
}

[[gnu::hot]] void ResultSlots::take_free_slot() { free_.pop_back(); }

void ResultSlots::give_back(uint64_t* slot, uint64_t sequence) {
  if (is_complete(slot, sequence)) {  // both are within their capacities: no allocation
    free_.push_back(slot);
  } else {
    late_.push_back({slot, sequence});
  }
}

void ResultSlots::context_ends(cuda::Context context) {
  is_pinned_ = false;
  cuda::forget(on_device_, context);
}

}  // namespace msda::record
