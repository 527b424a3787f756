#include "kernels/cuda/kept_memory.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "kernels/cuda/per_context.h"

namespace msda::kernels::cuda {
namespace {

// The first streams that ask for one keep their places: another stream's block could be freed only after its work, for
// which nobody can wait here. The stream may have been destroyed, and waiting for the whole device would invalidate
// captures. So no more blocks are kept than these, and the streams beyond them allocate.
class Blocks {
 public:
  // Null if there is none and no place for one.
  Block* of_stream(unsigned long long stream) {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [stream](const OfStream& b) { return b.stream == stream; });
    if (found != blocks_.end()) return &found->block;
    if (blocks_.size() == kMostStreams) return nullptr;
    return &blocks_.emplace_back(OfStream{stream, {}}).block;
  }
  // Its work has ended with it, but not memory of a pool, which is the device's.
  void end_of_context() {
    RelaxedCapture relaxed;
    relaxed.begin();
    for (const OfStream& of_stream : blocks_) {
      if (cudaFree(of_stream.block.data) != cudaSuccess) cudaGetLastError();
    }
  }

 private:
  static constexpr size_t kMostStreams = 16;
  struct OfStream {
    unsigned long long stream;
    Block block;
  };
  std::vector<OfStream> blocks_;
};

struct Store {
  std::mutex mutex;
  PerContext<Blocks> of_context;
};
// Never destroyed: the driver may have ended before the program's static objects do.
Store& store() {
  static auto* const store = new Store;
  return *store;
}

// use(block) of the target's stream, if it has a place.
template <class Use>
void with_block(Target& target, Use&& use) {
  const std::lock_guard lock(store().mutex);
  Block* const block = store().of_context.of(target.context()).of_stream(target.stream_number());
  if (block != nullptr) use(*block);
}

}  // namespace

Memory take_kept(Target& target) {
  Memory memory(Block{}, target);
  with_block(target, [&memory](Block& kept) { memory.swap(kept); });
  return memory;
}

void leave(Memory memory, Target& target) noexcept {
  try {
    with_block(target, [&memory](Block& kept) {
      if (kept.bytes < memory.bytes()) memory.swap(kept);
    });
  } catch (const std::bad_alloc&) {  // of the host: the call has been enqueued, and must not fail
  }
}

}  // namespace msda::kernels::cuda
