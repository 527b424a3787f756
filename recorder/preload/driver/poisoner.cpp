#include "recorder/preload/driver/poisoner.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"

namespace msda::record {

Poisoner& Poisoner::instance() {
  static constinit MadeOnce<Poisoner> poisoner;
  return poisoner.get();
}

bool Poisoner::start(std::span<const UnwrittenPiece> pieces, UnwrittenTable::Mode mode, Poison poison,
                     cuda::DevicePointer counts, cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (!kernel_.is_loaded()) return false;
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(kMostUnwrittenPieces, pieces.size()));
    UnwrittenTable table(mode, poison, counts);
    for (const UnwrittenPiece& piece : some) table.add(piece);
    auto parameters = table.parameters();
    if (kernel_.launch(table.blocks(), table.count(), kUnwrittenThreads, stream, parameters) != cuda::kSuccess) {
      return false;
    }
    counts += 2 * sizeof(uint64_t) * some.size();
    pieces = pieces.subspan(some.size());
  }
  return true;
}

void Poisoner::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
}

}  // namespace msda::record
