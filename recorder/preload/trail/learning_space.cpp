#include "recorder/preload/trail/learning_space.h"

#include <algorithm>

#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

cuda::DevicePointer LearningSpace::reserve(uint64_t bytes, cuda::Stream stream) {
  constexpr uint64_t kLeast = 64 << 20;
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess) return 0;
  Memory& ours = memory_[{context, stream}];
  if (bytes <= ours.bytes) return ours.address;
  size_t free = 0, total = 0;
  if (cuda::driver().memory_info(&free, &total) != cuda::kSuccess) return 0;
  const auto most = static_cast<uint64_t>(share_ * static_cast<double>(free + taken_));
  const uint64_t left = most > taken_ ? most - taken_ : 0;
  if (bytes > left) return 0;
  const uint64_t wanted = std::min(left, std::max({kLeast, bytes, 2 * ours.bytes}));
  cuda::DevicePointer fresh = 0;
  if (cuda::allocate_own(fresh, wanted) != cuda::kSuccess) return 0;
  if (ours.address != 0) outgrown_.push_back(ours.address);
  taken_ += wanted;
  ours = {fresh, wanted};
  return fresh;
}

bool LearningSpace::give_back() {
  for (const auto& [stream, ours] : memory_) {
    if (ours.address != 0) outgrown_.push_back(ours.address);
  }
  memory_.clear();
  bool has_any = false;
  for (const cuda::DevicePointer address : outgrown_) has_any |= cuda::free_own(address) == cuda::kSuccess;
  outgrown_.clear();
  taken_ = 0;
  return has_any;
}

void LearningSpace::context_ends(cuda::Context context) {
  std::erase_if(memory_, [&](const auto& entry) { return context == nullptr || entry.first.first == context; });
  outgrown_.clear();
  taken_ = 0;
  for (const auto& [stream, ours] : memory_) taken_ += ours.bytes;
}

}  // namespace msda::record
