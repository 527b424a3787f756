#include "recorder/preload/driver/comparer.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"
#include "recorder/device/ptx.h"

namespace msda::record {

Comparer& Comparer::instance() {
  static constinit MadeOnce<Comparer> comparer;
  return comparer.get();
}

bool Comparer::load() {
  return kernel_ != nullptr || cuda::load_kernel(kComparePtx, kCompareKernel, kernel_) == cuda::kSuccess;
}

bool Comparer::start(std::span<const ComparedPiece> pieces, cuda::DevicePointer counts, cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (!load()) return false;
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(kMostComparedPieces, pieces.size()));
    CompareTable table(counts);
    for (const ComparedPiece& piece : some) table.add(piece.address, piece.other, piece.bytes);
    auto parameters = table.parameters();
    const cuda::Result result = cuda::driver().launch(kernel_, table.blocks(), table.count(), 1, kCompareThreads, 1, 1,
                                                      0, stream, parameters.data(), nullptr);
    if (result != cuda::kSuccess) return false;
    counts += sizeof(uint64_t) * some.size();
    pieces = pieces.subspan(some.size());
  }
  return true;
}

void Comparer::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  kernel_ = nullptr;
}

}  // namespace msda::record
