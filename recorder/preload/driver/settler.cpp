#include "recorder/preload/driver/settler.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"
#include "recorder/device/ptx.h"

namespace msda::record {

Settler& Settler::instance() {
  static constinit MadeOnce<Settler> settler;
  return settler.get();
}

bool Settler::load() {
  return kernel_ != nullptr || cuda::load_kernel(kSettlePtx, kSettleKernel, kernel_) == cuda::kSuccess;
}

bool Settler::start(std::span<const SettledPiece> pieces, Settling settling, cuda::DevicePointer counts,
                    cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (!load()) return false;
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(kMostSettledPieces, pieces.size()));
    SettleTable table(settling, counts);
    for (const SettledPiece& piece : some) table.add(piece);
    auto parameters = table.parameters();
    const cuda::Result result = cuda::driver().launch(kernel_, table.blocks(), table.count(), 1, kSettleThreads, 1, 1,
                                                      0, stream, parameters.data(), nullptr);
    if (result != cuda::kSuccess) return false;
    counts += sizeof(uint64_t) * some.size();
    pieces = pieces.subspan(some.size());
  }
  return true;
}

void Settler::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_ = nullptr;
}

}  // namespace msda::record
