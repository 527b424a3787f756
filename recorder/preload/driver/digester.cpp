#include "recorder/preload/driver/digester.h"

#include <sys/mman.h>

#include <atomic>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/device/ptx.h"

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

Digests& Digests::operator=(Digests&& other) noexcept {
  std::swap(slot_, other.slot_);
  std::swap(sequence_, other.sequence_);
  std::swap(of_range_, other.of_range_);
  return *this;
}

Digests::~Digests() {
  // A slot that the device may still write to is not reused.
  if (slot_ != nullptr && ready()) Digester::instance().give_back(slot_);
}

bool Digests::ready() const { return std::atomic_ref(*slot_).load(std::memory_order_acquire) == sequence_; }

Digest Digests::operator[](size_t range) const {
  const uint8_t index = of_range_[range];
  return index == kNone ? Digest{} : Digest{slot_[1 + 2 * index], slot_[2 + 2 * index]};
}

Digester& Digester::instance() {
  static constinit MadeOnce<Digester> digester;
  return digester.get();
}

bool Digester::map_slots() {
  if (slots_ != nullptr) return true;
  void* memory = mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  madvise(memory, kSlots * kSlotBytes, MADV_DONTFORK);  // pinned pages must not be copied on a fork
  slots_ = static_cast<std::byte*>(memory);
  free_.reserve(kSlots);
  for (size_t i = 0; i < kSlots; ++i) free_.push_back(reinterpret_cast<uint64_t*>(slots_ + i * kSlotBytes));
  return true;
}

bool Digester::prepare(std::string& failure) {
  if (pinned_) return true;
  if (!map_slots()) {
    failure = "there is no memory for the recorder's digests";
    return false;
  }
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: for every context
  constexpr cuda::Result kAlreadyRegistered = 712;
  cuda::Result result = cuda::load_kernel(kDigestPtx, kDigestKernel, kernel_);
  if (result == cuda::kSuccess) result = cuda::driver().host_register(slots_, kSlots * kSlotBytes, kPortable);
  if (result != cuda::kSuccess && result != kAlreadyRegistered) {
    failure = "the driver refuses the recorder's digests (error " + std::to_string(result) + ")";
    return false;
  }
  pinned_ = true;
  return true;
}

void Digester::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  pinned_ = false;
  sums_.clear();
}

// 0 if they cannot be allocated.
cuda::DevicePointer Digester::sums_of_this_context(std::string& failure) {
  cuda::Context context = nullptr;
  cuda::DevicePointer memory = 0;
  cuda::Result result = cuda::driver().current_context(&context);
  if (const auto found = sums_.find(context); found != sums_.end()) return found->second;
  if (result == cuda::kSuccess) result = cuda::driver().allocate(&memory, kSlots * kSlotBytes);
  if (result == cuda::kSuccess) result = set_to_zero(memory, kSlots * kSlotBytes);
  if (result != cuda::kSuccess) {
    failure = "no device memory for the recorder's digests (error " + std::to_string(result) + ")";
    return 0;
  }
  sums_[context] = memory;
  return memory;
}

Digests Digester::start(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure) noexcept {
  Digests digests;
  try {
    if (ranges.size() > kMostRanges) {
      failure = "it has more than " + std::to_string(kMostRanges) + " tensors";
      return {};
    }
    uint64_t bytes = 0;
    for (const DeviceRange& range : ranges) bytes += range.bytes;
    DigestTable table(bytes);
    for (size_t i = 0; i < ranges.size(); ++i) {
      digests.of_range_[i] = static_cast<uint8_t>(ranges[i].bytes == 0 ? Digests::kNone : table.count());
      table.add(ranges[i].address, ranges[i].bytes);
    }
    if (!table.launchable()) {
      failure = "its tensors are empty, or larger than any memory";
      return {};
    }
    const std::lock_guard lock(mutex_);
    if (!prepare(failure)) return {};
    cuda::DevicePointer sums = sums_of_this_context(failure);
    if (sums == 0) return {};
    if (free_.empty()) {
      failure = "too many launches are under way";
      return {};
    }
    uint64_t* slot = free_.back();
    sums += reinterpret_cast<std::byte*>(slot) - slots_;
    uint64_t sequence = next_sequence_++;
    auto parameters = table.parameters(sums, slot, sequence);
    const cuda::Result result = cuda::driver().launch(kernel_, static_cast<unsigned>(table.blocks()), 1, 1,
                                                      kDigestThreads, 1, 1, 0, stream, parameters.data(), nullptr);
    if (result != cuda::kSuccess) {
      failure = "the driver does not launch the recorder's digests (error " + std::to_string(result) + ")";
      return {};
    }
    free_.pop_back();
    digests.slot_ = slot;
    digests.sequence_ = sequence;
  } catch (...) {
    failure = "no memory";
    return {};
  }
  return digests;
}

void Digester::give_back(uint64_t* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);  // within the capacity: no allocation
}

}  // namespace msda::record
