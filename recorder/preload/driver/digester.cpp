#include "recorder/preload/driver/digester.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

[[gnu::cold]] std::string in_brackets(cuda::Result error) { return " (error " + std::to_string(error) + ")"; }
[[gnu::cold]] std::string too_many_tensors() {
  return "it has more than " + std::to_string(Digester::kMostRanges) + " tensors";
}

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

bool is_complete(uint64_t* slot, uint64_t sequence) {
  return std::atomic_ref(*slot).load(std::memory_order_acquire) == sequence;
}

}  // namespace

Digests& Digests::operator=(Digests&& other) noexcept {
  std::swap(slot_, other.slot_);
  std::swap(sequence_, other.sequence_);
  std::swap(of_range_, other.of_range_);
  std::swap(ranges_, other.ranges_);
  std::swap(count_, other.count_);
  std::swap(handed_over_, other.handed_over_);
  return *this;
}

Digests::~Digests() {
  if (slot_ != nullptr) Digester::instance().give_back(slot_, sequence_);
}

bool Digests::ready() const { return is_complete(slot_, sequence_); }

Digest Digests::operator[](size_t range) const {
  const uint8_t index = of_range_[range];
  return index == kNone ? Digest{} : Digest{slot_[1 + 2 * index], slot_[2 + 2 * index]};
}

[[gnu::hot]] Digester& Digester::instance() {
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
  late_.reserve(kSlots);
  for (size_t i = 0; i < kSlots; ++i) free_.push_back(reinterpret_cast<uint64_t*>(slots_ + i * kSlotBytes));
  return true;
}

// Once, as is the next function for each context: kept apart from what every launch runs.
[[gnu::cold]] bool Digester::prepare(std::string& failure) {
  if (!map_slots()) {
    failure = "there is no memory for the recorder's digests";
    return false;
  }
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: for every context
  constexpr cuda::Result kAlreadyRegistered = 712;
  cuda::Result result = kernel_.load();
  if (result == cuda::kSuccess) result = cuda::driver().host_register(slots_, kSlots * kSlotBytes, kPortable);
  if (result != cuda::kSuccess && result != kAlreadyRegistered) {
    failure = "the driver refuses the recorder's digests" + in_brackets(result);
    return false;
  }
  pinned_ = true;
  cuda::note_own(slots_);
  return true;
}

void Digester::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  pinned_ = false;
  cuda::forget(sums_, context);
}

// 0 if they cannot be allocated.
[[gnu::cold]] cuda::DevicePointer Digester::allocate_sums(cuda::Context context, std::string& failure) {
  cuda::DevicePointer memory = 0;
  cuda::Result result = cuda::allocate_own(memory, kSlots * kSlotBytes);
  if (result == cuda::kSuccess) result = set_to_zero(memory, kSlots * kSlotBytes);
  if (result != cuda::kSuccess) {
    failure = "no device memory for the recorder's digests" + in_brackets(result);
    return 0;
  }
  sums_[context] = memory;
  return memory;
}

// 0 if there are none.
[[gnu::hot]] cuda::DevicePointer Digester::sums_of_this_context(std::string& failure) {
  cuda::Context context = nullptr;
  if (const cuda::Result result = cuda::driver().current_context(&context); result != cuda::kSuccess) {
    failure = "the recorder's digests have no context" + in_brackets(result);
    return 0;
  }
  const auto found = sums_.find(context);
  return found != sums_.end() ? found->second : allocate_sums(context, failure);
}

[[gnu::hot]] bool Digester::launch(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream,
                                   bool hands_over, std::string& failure) {
  if (ranges.size() > kMostRanges || digests.ranges_ + ranges.size() > kMostDigests) {
    failure = too_many_tensors();
    return false;
  }
  uint64_t bytes = 0;
  for (const DeviceRange& range : ranges) bytes += range.bytes;
  DigestTable table(bytes);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool is_empty = ranges[i].bytes == 0;
    digests.of_range_[digests.ranges_ + i] =
        is_empty ? Digests::kNone : static_cast<uint8_t>(digests.count_ + table.count());
    table.add(ranges[i].address, ranges[i].bytes);
  }
  if (!table.launchable()) {
    failure = "its tensors are empty, or larger than any memory";
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (!pinned_ && !prepare(failure)) return false;
  const cuda::DevicePointer sums = sums_of_this_context(failure);
  if (sums == 0) return false;
  if (digests.slot_ == nullptr && free_.empty()) collect_late();
  if (digests.slot_ == nullptr && free_.empty()) {
    failure = "too many launches are under way";
    return false;
  }
  uint64_t* slot = digests.slot_ != nullptr ? digests.slot_ : free_.back();
  DigestTarget target{sums + static_cast<uint64_t>(reinterpret_cast<std::byte*>(slot) - slots_),
                      hands_over ? slot : nullptr,
                      next_sequence_++,
                      digests.count_,
                      digests.handed_over_,
                      digests.count_ + table.count()};
  auto parameters = table.parameters(target);
  const cuda::Result result =
      kernel_.launch(static_cast<unsigned>(table.blocks()), 1, kDigestThreads, stream, parameters);
  if (result != cuda::kSuccess) {
    failure = "the driver does not launch the recorder's digests" + in_brackets(result);
    return false;
  }
  if (digests.slot_ == nullptr) free_.pop_back();
  digests.slot_ = slot;
  digests.sequence_ = target.sequence;
  digests.ranges_ += ranges.size();
  digests.count_ = target.end;
  if (hands_over) digests.handed_over_ = target.end;
  return true;
}

Digests Digester::start(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure) noexcept {
  Digests digests;
  extend(digests, ranges, stream, failure);
  return digests;
}

[[gnu::hot]] Digests Digester::begin(std::span<const DeviceRange> ranges, cuda::Stream stream,
                                     std::string& failure) noexcept {
  Digests digests;
  try {
    launch(digests, ranges, stream, /*hands_over=*/false, failure);
  } catch (...) {
    failure = "no memory";
  }
  return digests;
}

bool Digester::extend(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream,
                      std::string& failure) noexcept {
  try {
    return launch(digests, ranges, stream, /*hands_over=*/true, failure);
  } catch (...) {
    failure = "no memory";
  }
  return false;
}

void Digester::finish(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream) noexcept {
  const auto any = std::ranges::find_if(ranges, [](const DeviceRange& range) { return range.bytes > 0; });
  if (any == ranges.end()) return;
  const DeviceRange little{any->address, 1};
  std::string failure;
  extend(digests, {&little, 1}, stream, failure);
}

// A slot that the device may still write to is not reused yet.
void Digester::give_back(uint64_t* slot, uint64_t sequence) {
  const std::lock_guard lock(mutex_);  // both are within their capacities: no allocation
  if (is_complete(slot, sequence)) {
    free_.push_back(slot);
  } else {
    late_.push_back({slot, sequence});
  }
}

void Digester::collect_late() {
  std::erase_if(late_, [this](const Late& late) {
    const bool is_done = is_complete(late.slot, late.sequence);
    if (is_done) free_.push_back(late.slot);
    return is_done;
  });
}

}  // namespace msda::record
