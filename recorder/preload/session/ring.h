// The target's side of the memory shared with the writer (spool/ring.h): blocks of pinned memory that device tensors
// are copied into. It grows as needed up to MSDA_RECORD_RING_BYTES; when it is full, whoever wants a block waits for
// the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "recorder/spool/ring.h"

namespace msda::record {

class Ring {
 public:
  struct Block {
    uint32_t number = 0;
    uint64_t offset = 0;  // in the shared file
    std::byte* memory = nullptr;
  };

  // What the owner does for it.
  struct Owner {
    void (*pin)(void* memory, uint64_t bytes);  // makes memory fast for the device to copy into, where there is one
    void (*unpin)(void* memory);                // all that was pinned there
    void (*spare)();                            // gives back what can be spared, when there is no room
  };

  // False, with nothing done, if there is no shared memory to be had.
  bool open(uint64_t most_bytes, const Owner& owner) noexcept;
  int descriptor() const { return file_; }
  // Empty if `bytes` are more than there may be, or if none came free for ten seconds. Needs what pin() needs.
  std::optional<Block> reserve(uint64_t bytes) noexcept;
  void give_back(uint32_t block) noexcept;  // by its number
  // In a forked child: all of it is the parent's.
  void abandon() noexcept;

 private:
  struct Range {
    uint64_t offset, bytes;
  };
  struct Segment {
    uint64_t offset, bytes;
    std::byte* memory;
    std::map<uint64_t, uint64_t> free;  // offset to bytes
  };

  std::optional<Block> take(uint64_t bytes);
  void collect();
  bool grow(uint64_t bytes);

  std::mutex mutex_;
  int file_ = -1;
  spool::RingHeader* header_ = nullptr;
  uint64_t end_ = spool::RingHeader::kBytes, most_bytes_ = 0;
  Owner owner_{};
  std::vector<Segment> segments_;
  std::map<uint32_t, Range> taken_;
};

}  // namespace msda::record
