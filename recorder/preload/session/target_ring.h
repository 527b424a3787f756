// The target's side of the memory shared with the writer (spool/ring.h): blocks of pinned memory that device tensors
// are copied into. It grows as needed up to MSDA_RECORD_RING_BYTES; when it is full, whoever wants a block waits for
// the writer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/spool/owned_descriptor.h"
#include "recorder/spool/ring.h"

namespace msda::record {

// A block that is given back when nobody has it any more, unless it is the writer's by then.
class RingBlock {
 public:
  RingBlock() = default;
  RingBlock(std::atomic<uint32_t>* taken, uint32_t number, uint64_t offset, std::byte* memory)
      : taken_(taken), number_(number), offset_(offset), memory_(memory) {}
  RingBlock(RingBlock&& other) noexcept { *this = std::move(other); }
  RingBlock& operator=(RingBlock&& other) noexcept {
    std::swap(taken_, other.taken_);
    std::swap(number_, other.number_);
    std::swap(offset_, other.offset_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~RingBlock() { give_back(); }

  explicit operator bool() const { return taken_ != nullptr; }
  uint32_t number() const { return number_; }
  uint64_t offset() const { return offset_; }  // in the shared file
  std::byte* memory() const { return memory_; }

  void give_back() noexcept {
    if (taken_ != nullptr) taken_->store(0, std::memory_order_release);
    taken_ = nullptr;
  }
  // Frames name it: the writer gives it back.
  void hand_over() noexcept { taken_ = nullptr; }

 private:
  std::atomic<uint32_t>* taken_ = nullptr;
  uint32_t number_ = 0;
  uint64_t offset_ = 0;
  std::byte* memory_ = nullptr;
};

class TargetRing {
 public:
  // What the owner does for it.
  struct Owner {
    void (*pin)(void* memory, uint64_t bytes);  // makes memory fast for the device to copy into, where there is one
    void (*unpin)(void* memory);                // all that was pinned there
    void (*spare)() noexcept;                   // gives back what can be spared, when there is no room
    bool (*is_read)() noexcept;                 // the writer lives
  };

  // False, with nothing done, if there is no shared memory to be had.
  bool open(uint64_t most_bytes, const Owner& owner) noexcept;
  bool is_open() const noexcept { return header_ != nullptr; }
  int descriptor() const noexcept { return file_.get(); }

  // Waits as long as the writer gives blocks back. Empty if `bytes` are more than there may be, or if none came back
  // for ten seconds. Needs what pin() needs.
  std::optional<RingBlock> reserve(uint64_t bytes) noexcept;

  // The device forgot that the memory is pinned (cudaDeviceReset): pins it again with the next block.
  void pins_are_lost() noexcept { ++pin_epoch_; }

  // Lets go of the memory; blocks must not be used any more. What was handed over is still there for the writer.
  void close() noexcept;

  // In a forked child: closes the descriptor, and leaves all else to the parent.
  void close_in_child() noexcept { file_.close(); }

 private:
  struct Range {
    uint64_t offset, bytes;
  };
  struct Segment {
    uint64_t offset, bytes;
    std::byte* memory;
    std::map<uint64_t, uint64_t> free;  // offset to bytes
    uint64_t pin_epoch;
  };

  std::optional<RingBlock> take(uint64_t bytes);
  void collect();
  void add_free(Range range);
  void drop_empty_segments(uint64_t bytes);
  bool grow(uint64_t bytes);
  void pin_again(Segment& segment);
  uint64_t segment_bytes() const;

  std::mutex mutex_;
  spool::OwnedDescriptor file_;
  spool::RingHeader* header_ = nullptr;
  uint64_t end_ = spool::RingHeader::kBytes, most_bytes_ = 0;
  std::atomic<uint64_t> given_back_{0}, pin_epoch_{0};
  Owner owner_{};
  std::vector<Segment> segments_;
  std::map<uint32_t, Range> taken_;
};

}  // namespace msda::record
