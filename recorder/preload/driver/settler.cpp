#include "recorder/preload/driver/settler.h"

#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

Settler& Settler::instance() {
  static constinit MadeOnce<Settler> settler;
  return settler.get();
}

bool Settler::start(std::span<const SettledPiece> pieces, Settling settling, cuda::DevicePointer count,
                    cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  static constexpr SettledPiece kNothing{};  // one piece at least: the next number is set
  if (pieces.empty()) pieces = {&kNothing, 1};
  return kernel_.launch_for(pieces, kSettleThreads, stream, [&](size_t) { return SettleTable(settling, count); });
}

// Returns null if there is none.
cuda::Event Settler::event_of_this_context() {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess) return nullptr;
  cuda::Event& event = events_[context];
  if (event == nullptr && cuda::driver().create_event(&event, cuda::kDisableTiming) != cuda::kSuccess) event = nullptr;
  return event;
}

bool Settler::bring(cuda::DevicePointer counts, size_t number, cuda::Stream stream) noexcept try {
  const std::lock_guard lock(mutex_);
  const cuda::Driver& driver = cuda::driver();
  if (driver.create_event == nullptr || driver.record_event == nullptr || driver.wait_on_host == nullptr) return false;
  event_ = event_of_this_context();
  if (event_ == nullptr || number > kMostCounts) return false;
  if (!std::exchange(is_pinned_, true)) cuda::pin(page_.get(), sizeof(Page));
  brought_ = number;
  return driver.copy_to_host(page_->counts, counts, sizeof(uint64_t) * number, stream) == cuda::kSuccess &&
         driver.record_event(event_, stream) == cuda::kSuccess;
} catch (...) {  // no memory
  return false;
}

std::optional<std::vector<uint64_t>> Settler::brought() noexcept try {
  const std::lock_guard lock(mutex_);
  if (cuda::driver().wait_on_host(event_) != cuda::kSuccess) return std::nullopt;
  return std::vector(page_->counts, page_->counts + brought_);
} catch (...) {  // no memory
  return std::nullopt;
}

void Settler::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  cuda::forget(events_, context);
  is_pinned_ = false;
}

}  // namespace msda::record
