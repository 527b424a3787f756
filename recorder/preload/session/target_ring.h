// The recorded process' side of the memory shared with the writer (spool/ring.h): blocks of pinned memory into which
// device tensors are copied. It grows as needed up to MSDA_RECORD_RING_BYTES, and prepares for that ahead. When it is
// full, reserve() waits for the writer, but not for one that stands still: all waits of the program share one patience.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/session/segment_memory.h"
#include "recorder/spool/owned_descriptor.h"
#include "recorder/spool/ring.h"

namespace msda::record {

// Owns a block and frees it, unless it has been handed over to the writer.
class RingBlock {
 public:
  RingBlock() = default;
  // `ticket` is what `taken` holds while this block has the number.
  RingBlock(std::atomic<uint32_t>* taken, uint32_t ticket, uint32_t number, uint64_t offset, std::byte* memory)
      : taken_(taken), ticket_(ticket), number_(number), offset_(offset), memory_(memory) {}
  RingBlock(RingBlock&& source) noexcept { *this = std::move(source); }
  RingBlock& operator=(RingBlock&& source) noexcept {
    std::swap(taken_, source.taken_);
    std::swap(ticket_, source.ticket_);
    std::swap(number_, source.number_);
    std::swap(offset_, source.offset_);
    std::swap(memory_, source.memory_);
    std::swap(is_writers_, source.is_writers_);
    return *this;
  }
  ~RingBlock() { give_back(); }

  explicit operator bool() const { return taken_ != nullptr; }
  uint32_t number() const { return number_; }
  uint64_t offset() const { return offset_; }  // in the shared file
  std::byte* memory() const { return memory_; }

  void give_back() noexcept {
    if (taken_ != nullptr && !is_writers_) taken_->store(0, std::memory_order_release);
    taken_ = nullptr;
  }
  // Called when a frame names the block: the writer frees it.
  void hand_over() noexcept { is_writers_ = true; }
  // Returns whether the writer has freed the block that was handed over.
  bool is_read() const noexcept { return taken_->load(std::memory_order_acquire) != ticket_; }
  // Called when the writer has ended: the block is freed here.
  void take_back() noexcept { is_writers_ = false; }

 private:
  std::atomic<uint32_t>* taken_ = nullptr;
  uint32_t ticket_ = 0, number_ = 0;
  uint64_t offset_ = 0;
  std::byte* memory_ = nullptr;
  bool is_writers_ = false;
};

class TargetRing {
 public:
  // Functions that the ring calls.
  struct Owner {
    void (*pin)(void* memory, uint64_t bytes);  // pins memory for fast copies, if there is a device
    void (*unpin)(void* memory);                // undoes pin()
    void (*spare)() noexcept;                   // frees what can be spared, when the ring is full
    bool (*is_read)() noexcept;                 // the writer lives
  };

  // Returns false, with nothing done, if no shared memory can be created.
  bool open(uint64_t most_bytes, const Owner& owner) noexcept;
  bool is_open() const noexcept { return header_ != nullptr; }
  int descriptor() const noexcept { return file_.get(); }

  // Reserves a block for a launch. Waits as long as blocks are freed, and kPatience in all for blocks that are not.
  // Returns nothing, and the reason, if there is no room, which is counted. Needs what pin() needs.
  std::optional<RingBlock> reserve(uint64_t bytes, std::string& why) noexcept;

  // Returns the launches so far that found no room. The writer, if it lives, reports them at the end.
  spool::Missing missing() const noexcept;

  // Returns the writer's answer to the cut of this number, which comes without the socket. Nothing after a minute.
  std::optional<spool::CutDone> wait_for_cut(uint64_t number) const noexcept;

  // Called when the device has lost the pinning (cudaDeviceReset): pins the memory again with the next block.
  void pins_are_lost() noexcept { ++pin_epoch_; }

  // Unmaps the memory; blocks must not be used any more. The writer keeps what was handed over.
  void close() noexcept;

  // Called in a forked child: closes the descriptor and changes nothing else, which belongs to the parent.
  void close_in_child() noexcept { file_.close(); }

 private:
  struct Range {
    uint64_t offset, bytes;
  };
  struct Segment {
    std::unique_ptr<SegmentMemory> memory;
    std::map<uint64_t, uint64_t> free;  // offset to bytes
    uint64_t pin_epoch;
  };

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{2000};

  std::optional<RingBlock> wait_for_block(uint64_t bytes, spool::NoBlock& reason);
  std::string text_of(spool::NoBlock reason, uint64_t bytes) const;
  std::optional<RingBlock> take(uint64_t bytes);
  void collect();
  void add_free(Range range);
  void drop_empty_segments(uint64_t bytes);
  Clock::duration lose_patience(Clock::duration waited);
  std::optional<uint64_t> next_size(uint64_t bytes) const;
  void prepare_next();
  bool grow(uint64_t bytes);
  void add(std::unique_ptr<SegmentMemory> memory);
  void pin_again(Segment& segment);
  void unpin(const Segment& segment);
  uint64_t segment_bytes() const;

  std::mutex mutex_;
  spool::OwnedDescriptor file_;
  std::unique_ptr<SegmentMemory> header_memory_;
  spool::RingHeader* header_ = nullptr;
  uint64_t end_ = spool::RingHeader::kBytes, most_bytes_ = 0;
  std::atomic<uint64_t> given_back_{0}, pin_epoch_{0};
  Owner owner_{};
  std::vector<Segment> segments_;
  std::unique_ptr<SegmentMemory> next_;  // segment, while it is being prepared
  bool has_failed_ = false;              // to prepare one: it will again
  std::map<uint32_t, Range> taken_;
  uint32_t ticket_ = 0;                   // of the last block
  Clock::duration patience_ = kPatience;  // left
};

}  // namespace msda::record
