#include "recorder/preload/driver/change_finder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "recorder/adapters/made_once.h"

namespace msda::record {

FoundChanges& FoundChanges::operator=(FoundChanges&& from) noexcept {
  std::swap(slots_, from.slots_);
  return *this;
}

FoundChanges::~FoundChanges() {
  ChangeFinder& finder = ChangeFinder::instance();
  if (slots_.empty()) return;
  const std::lock_guard lock(finder.mutex_);
  for (const auto& [slot, sequence] : slots_) finder.slots_.give_back(slot, sequence);
}

bool FoundChanges::ready() const {
  return std::ranges::all_of(slots_,
                             [](const Slot& result) { return ResultSlots::is_complete(result.slot, result.sequence); });
}

FoundInPiece FoundChanges::operator[](size_t piece) const {
  FoundInPiece found;
  const uint64_t* results = slots_[piece / kMostSavedPieces].slot + 1;
  std::memcpy(static_cast<void*>(&found), results + piece % kMostSavedPieces * (sizeof found / sizeof *results),
              sizeof found);
  return found;
}

ChangeFinder& ChangeFinder::instance() {
  static constinit MadeOnce<ChangeFinder> finder;
  return finder.get();
}

bool ChangeFinder::launch(std::span<const SavedPiece> pieces, const DeviceRange& addresses, cuda::Stream stream,
                          FoundChanges& changes) {
  uint64_t* slot = slots_.free_slot();
  if (slot == nullptr) return false;
  const uint64_t sequence = slots_.next_sequence();
  changes.slots_.reserve(changes.slots_.size() + 1);
  ChangedTable table(addresses.address, addresses.bytes, slots_.on_device(slot), reinterpret_cast<uint64_t>(slot),
                     sequence);
  for (const SavedPiece& piece : pieces) table.add(piece);
  for (const auto mode : {ChangedTable::Mode::kFind, ChangedTable::Mode::kDigest}) {
    auto parameters = table.parameters(mode);
    if (kernel_.launch(table.blocks(), table.rows(), kChangedThreads, stream, parameters) != cuda::kSuccess) {
      return false;
    }
  }
  slots_.take_free_slot();
  changes.slots_.push_back({slot, sequence});
  return true;
}

FoundChanges ChangeFinder::start(std::span<const SavedPiece> pieces, const DeviceRange& addresses,
                                 cuda::Stream stream) noexcept {
  FoundChanges changes;
  try {
    std::string failure;
    const std::unique_lock lock(mutex_);
    if (!kernel_.is_loaded() || !slots_.prepare(failure)) return changes;
    for (; !pieces.empty(); pieces = pieces.subspan(std::min(pieces.size(), kMostSavedPieces))) {
      if (launch(pieces.first(std::min(pieces.size(), kMostSavedPieces)), addresses, stream, changes)) continue;
      for (const auto& [taken, sequence] : std::exchange(changes.slots_, {})) slots_.give_back(taken, sequence);
      break;
    }
  } catch (...) {  // no memory
  }
  return changes;
}

void ChangeFinder::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  slots_.context_ends(context);
}

}  // namespace msda::record
