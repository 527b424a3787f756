#include "analysis/operators/grid_sample/cache.h"

#include <algorithm>

namespace msda::analysis {

std::shared_ptr<GridSampleCache::Slot> GridSampleCache::slot(const Key& key) {
  constexpr size_t kMost = 8;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(slots_, key, &std::pair<Key, std::shared_ptr<Slot>>::first);
  if (found != slots_.end()) {
    std::rotate(found, found + 1, slots_.end());
    return slots_.back().second;
  }
  if (slots_.size() >= kMost) slots_.erase(slots_.begin());
  return slots_.emplace_back(key, std::make_shared<Slot>()).second;
}

std::shared_ptr<const GridContributions> GridSampleCache::get(int64_t n, const Precision& precision,
                                                              const Narrowing* narrowing) {
  const bool rounds_locations = narrowing != nullptr && narrowing->rounds(kLocations);
  const auto slot = this->slot({n, precision.bits, rounds_locations ? static_cast<int64_t>(narrowing->narrow) : -1});
  std::call_once(slot->found, [&] {
    slot->contributions = std::make_shared<const GridContributions>(call_, n, precision, narrowing);
  });
  return slot->contributions;
}

}  // namespace msda::analysis
