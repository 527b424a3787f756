#include "recorder/preload/driver/saver.h"

#include <atomic>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

constexpr uint64_t kBytesOfFound = sizeof(uint64_t);

}  // namespace

Saver& Saver::instance() {
  static constinit MadeOnce<Saver> saver;
  return saver.get();
}

bool Saver::pin() {
  const cuda::Driver& driver = cuda::driver();
  if (any_ != 0) return true;
  cuda::pin(page_.get(), sizeof(Page));
  return driver.host_device_pointer != nullptr && driver.host_device_pointer(&any_, &page_->any, 0) == cuda::kSuccess;
}

// Returns null if there is no memory.
Saver::Found* Saver::found_of_this_context(cuda::Stream stream) {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess) return nullptr;
  Found& found = found_[context];
  if (found.memory != 0) return &found;
  cuda::DevicePointer memory = 0;
  if (cuda::allocate_own(memory, kBytesOfFound * (1 + kMostPointersFound)) != cuda::kSuccess ||
      cuda::driver().set_bytes(memory, 0, kBytesOfFound, stream) != cuda::kSuccess) {
    return nullptr;
  }
  found = {memory, 0};
  return &found;
}

bool Saver::save(std::span<const SavedPiece> pieces, const DeviceRange& pointed_to, cuda::Stream stream) noexcept try {
  const std::lock_guard lock(mutex_);
  const Found* const found = found_of_this_context(stream);
  if (found == nullptr || !pin()) return false;
  std::atomic_ref(page_->any).store(0);
  const uint64_t least = pointed_to.address, end = least + pointed_to.bytes;
  return kernel_.launch_for(pieces, kSaveThreads, stream,
                            [&](size_t) { return SaveTable(least, end, found->memory, found->count, any_); });
} catch (...) {  // no memory
  return false;
}

std::optional<std::vector<uint64_t>> Saver::found(cuda::Stream stream) noexcept try {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> words;
  if (std::atomic_ref(page_->any).load() == 0) return words;
  const cuda::Driver& driver = cuda::driver();
  const auto get = [&](uint64_t* to, cuda::DevicePointer from, uint64_t count) {
    return driver.copy_to_host(to, from, kBytesOfFound * count, stream) == cuda::kSuccess &&
           driver.synchronize(stream) == cuda::kSuccess;
  };
  Found* const found = found_of_this_context(stream);
  uint64_t now = 0;
  if (found == nullptr || !get(&now, found->memory, 1)) return std::nullopt;
  const uint64_t count = now - std::exchange(found->count, now);
  if (count > kMostPointersFound) return std::nullopt;
  words.resize(count);
  if (count > 0 && !get(words.data(), found->memory + kBytesOfFound, count)) return std::nullopt;
  return words;
} catch (...) {  // no memory
  return std::nullopt;
}

void Saver::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  cuda::forget(found_, context);
  any_ = 0;
}

}  // namespace msda::record
