// Memory that the target and its writer share. It carries the bytes of tensors; the spool's frames say where they lie.
// The target fills a block and names it in a frame; the writer frees the block by its number when the bytes are in the
// capture. The memory outlives the target as long as the writer maps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recorder/spool/news.h"

namespace msda::spool {

// Why there is no block for a launch.
enum class NoBlock : uint32_t { kTooLarge, kNoMemory, kWriterStands, kWriterEnded };

struct Missing {
  uint64_t launches = 0, missing = 0;
  NoBlock most = NoBlock::kTooLarge;  // of them for this reason

  // Returns the line with which a recording ends: "2 of 9 launches are missing: ", the reason and the remedy.
  std::string description() const;
};

// At the beginning of the shared file.
struct RingHeader {
  static constexpr uint32_t kBlocks = 1024;
  static constexpr uint64_t kBytes = 8192;  // the header's size; blocks follow
  static constexpr size_t kReasons = 4;     // of NoBlock

  std::atomic<uint32_t> taken[kBlocks];  // not 0 while the target or the writer needs the block of that number
  uint64_t most_bytes;                   // the limit for all blocks together
  // The writer's last answer to a cut (news.h), for a target that has closed the socket: its number is written last.
  std::atomic<uint64_t> answered;
  int64_t invocations;
  uint64_t renamed;
  // Launches for which the target wanted a block, and those of them that got none.
  std::atomic<uint64_t> launches, missing[kReasons];
};
Missing missing_in(const RingHeader& header);
static_assert(sizeof(RingHeader) <= RingHeader::kBytes && std::atomic<uint64_t>::is_always_lock_free);

// The writer's side.
class RingReader {
 public:
  // Takes over the descriptor. Throws spool::Error if it cannot be mapped.
  explicit RingReader(int file);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // Returns bytes that are valid as long as this object, even if the file grows. Throws spool::Error if the file does
  // not contain them.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t size);
  void release(uint32_t block);
  void answer(const CutDone& cut);
  Missing missing() const { return missing_in(header()); }
  // Returns the limit for all of the target's blocks together.
  uint64_t most_bytes() const { return header().most_bytes; }

 private:
  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(parts_.front().data()); }
  void map_what_is_new();

  int file_;
  // The mapped parts, in the order in which the file grew. A block lies within one part: the file grows by whole
  // blocks.
  std::vector<std::span<std::byte>> parts_;
  uint64_t mapped_ = 0;
};

}  // namespace msda::spool
