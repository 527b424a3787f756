#include "kernels/cuda/common/kept_memory.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "kernels/cuda/common/per_context.h"

namespace msda::kernels::cuda {
namespace {

// The first streams that ask for a block keep their places. Another stream's block could be freed only after its work,
// and nothing here can wait for that: the stream may have been destroyed, and waiting for the whole device would
// invalidate captures. So no more blocks are kept than these, and later streams allocate.
class Blocks {
 public:
  // Takes the stream's block out; returns one without bytes if there is none.
  Block take(unsigned long long stream) {
    Block* const place = place_of(stream);
    if (place == nullptr) return {};
    bytes_ -= place->bytes;
    return std::exchange(*place, Block{});
  }
  // Puts the block into the stream's place, if there is one and the block is larger than the one there. Returns the
  // block that is left over.
  Block put(unsigned long long stream, Block block) {
    Block* const place = place_of(stream);
    if (place == nullptr || block.bytes <= place->bytes) return block;
    const size_t others = bytes_ - place->bytes;
    if (others + block.bytes > kMostKeptOfContext) return block;
    bytes_ = others + block.bytes;
    return std::exchange(*place, block);
  }
  // Frees the blocks: the context's work has ended with it, but memory of a pool belongs to the device and has not.
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
  // Returns null if there is no place for another stream.
  Block* place_of(unsigned long long stream) {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [stream](const OfStream& b) { return b.stream == stream; });
    if (found != blocks_.end()) return &found->block;
    if (blocks_.size() == kMostStreams) return nullptr;
    return &blocks_.emplace_back(OfStream{stream, {}}).block;
  }

  std::vector<OfStream> blocks_;
  size_t bytes_ = 0;  // of all blocks
};

struct Store {
  std::mutex mutex;
  PerContext<Blocks> of_context;
};
// Returns the store. It is never destroyed: the driver may have ended before the program's static objects do.
Store& store() {
  static auto* const store = new Store;
  return *store;
}

// Calls use(blocks) with the blocks of the target's context.
template <class Use>
void with_blocks(Target& target, Use&& use) {
  const std::lock_guard lock(store().mutex);
  use(store().of_context.of(target.context()));
}

}  // namespace

Memory take_kept(Target& target) {
  Block kept;
  with_blocks(target, [&](Blocks& blocks) { kept = blocks.take(target.stream_number()); });
  return {kept, target};
}

void leave(Memory memory, Target& target) noexcept {
  try {
    with_blocks(target, [&](Blocks& blocks) {
      Block block;
      memory.swap(block);
      block = blocks.put(target.stream_number(), block);
      memory.swap(block);
    });
  } catch (const std::bad_alloc&) {  // host memory: the call has been enqueued, and must not fail
  }
}

}  // namespace msda::kernels::cuda
