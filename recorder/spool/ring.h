// Memory that the target and its writer share: tensors' bytes go through it, and the spool's frames say where they lie.
// The target fills a block and names it in a frame; the writer gives it back by its number when the bytes are in the
// capture. The memory outlives the target for as long as the writer has it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msda::spool {

// At the beginning of the shared file.
struct RingHeader {
  static constexpr uint32_t kBlocks = 1024;
  static constexpr uint64_t kBytes = 8192;  // what the header takes; blocks lie behind it

  std::atomic<uint32_t> taken[kBlocks];  // 1 while the target or the writer needs the block of that number
  uint64_t most_bytes;                   // that the blocks may take in all
};
static_assert(sizeof(RingHeader) <= RingHeader::kBytes && std::atomic<uint32_t>::is_always_lock_free);

// The writer's side.
class RingReader {
 public:
  // Takes the descriptor over. Throws spool::Error if it cannot be mapped.
  explicit RingReader(int file);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // Valid as long as this object, however far the file grows. Throws spool::Error where the file does not have them.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t size);
  void release(uint32_t block);
  // That the target's blocks may take in all.
  uint64_t most_bytes() const { return header().most_bytes; }

 private:
  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(parts_.front().data()); }
  void map_what_is_new();

  int file_;
  // What was mapped as the file grew, one behind the other. A block lies in one of them: the file grows by whole
  // blocks.
  std::vector<std::span<std::byte>> parts_;
  uint64_t mapped_ = 0;
};

}  // namespace msda::spool
