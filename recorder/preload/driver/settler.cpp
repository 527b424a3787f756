#include "recorder/preload/driver/settler.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"

namespace msda::record {

Settler& Settler::instance() {
  static constinit MadeOnce<Settler> settler;
  return settler.get();
}

bool Settler::start(std::span<const SettledPiece> pieces, Settling settling, cuda::DevicePointer counts,
                    cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (!kernel_.is_loaded()) return false;
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(kMostSettledPieces, pieces.size()));
    SettleTable table(settling, counts);
    for (const SettledPiece& piece : some) table.add(piece);
    auto parameters = table.parameters();
    if (kernel_.launch(table.blocks(), table.count(), kSettleThreads, stream, parameters) != cuda::kSuccess) {
      return false;
    }
    counts += sizeof(uint64_t) * some.size();
    pieces = pieces.subspan(some.size());
  }
  return true;
}

void Settler::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
}

}  // namespace msda::record
