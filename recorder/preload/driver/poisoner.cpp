#include "recorder/preload/driver/poisoner.h"

#include "recorder/adapters/made_once.h"

namespace msda::record {

Poisoner& Poisoner::instance() {
  static constinit MadeOnce<Poisoner> poisoner;
  return poisoner.get();
}

bool Poisoner::start(std::span<const UnwrittenPiece> pieces, UnwrittenTable::Mode mode, Poison poison,
                     cuda::DevicePointer counts, cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  return kernel_.launch_for(pieces, kUnwrittenThreads, stream, [&](size_t done) {
    return UnwrittenTable(mode, poison, counts + 2 * sizeof(uint64_t) * done);
  });
}

void Poisoner::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
}

}  // namespace msda::record
