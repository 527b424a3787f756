#include "recorder/preload/session/target_ring.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <new>
#include <utility>

namespace msda::record {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSmallestSegment = 128 << 20;

uint64_t in_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

bool TargetRing::open(uint64_t most_bytes, const Owner& owner) noexcept {
  most_bytes_ = most_bytes;
  owner_ = owner;
  file_ = spool::OwnedDescriptor(memfd_create("msda-record", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = file_.get();
  if (file >= 0) header_memory_ = SegmentMemory::make(file, 0, spool::RingHeader::kBytes);
  if (!header_memory_) {
    file_.close();
    return false;
  }
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
  }  // without the seal, the writer could shrink the file
  header_ = new (header_memory_->data()) spool::RingHeader{};
  header_->most_bytes = most_bytes;
  return true;
}

std::optional<RingBlock> TargetRing::reserve(uint64_t bytes, std::string& why) noexcept {
  auto reason = spool::NoBlock::kNoMemory;
  if (header_ == nullptr) return std::nullopt;
  try {
    ++header_->launches;
    if (auto block = wait_for_block(bytes, reason)) return block;
    why = text_of(reason, bytes);
  } catch (...) {
  }
  ++header_->missing[static_cast<size_t>(reason)];
  return std::nullopt;
}

// Leaves sizes out where they do not matter: each text is printed once.
std::string TargetRing::text_of(spool::NoBlock reason, uint64_t bytes) const {
  const std::string memory = "in the memory shared with the writer";
  switch (reason) {
    case spool::NoBlock::kTooLarge:
      return "no room for its " + std::to_string(bytes) + " bytes " + memory +
             "; MSDA_RECORD_RING_BYTES sets its limit";
    case spool::NoBlock::kNoMemory:
      return "there is no memory for its " + std::to_string(bytes) + " bytes " + memory +
             "; ulimit -f and ulimit -v limit it, too";
    case spool::NoBlock::kWriterEnded:
      return "no room " + memory + ", which has ended; its launches that find none are counted at the end";
    case spool::NoBlock::kWriterStands:
      break;
  }
  return "no room " + memory +
         ", which frees none: is the disk slow? Its launches are skipped until it reads on, and " +
         "counted at the end; MSDA_RECORD_RING_BYTES sets the limit";
}

std::optional<RingBlock> TargetRing::wait_for_block(uint64_t bytes, spool::NoBlock& reason) {
  constexpr timespec kPause{0, 200000};
  reason = spool::NoBlock::kTooLarge;
  if (bytes > most_bytes_) return std::nullopt;
  bytes = std::max(in_pages(bytes), kPage);
  auto since = Clock::now();
  uint64_t given_back = given_back_;
  bool has_spared = false, is_full = false, is_any_taken = false;
  for (;; nanosleep(&kPause, nullptr)) {
    {
      const std::lock_guard lock(mutex_);
      collect();
      auto block = take(bytes);
      if (!block && !is_full) {
        is_full = !grow(bytes);
        block = take(bytes);
      }
      if (block) {
        prepare_next();
        return block;
      }
      is_any_taken = !taken_.empty();
    }
    const bool spares = is_full && !std::exchange(has_spared, true);
    if (spares) owner_.spare();
    reason = spool::NoBlock::kNoMemory;
    if (is_full && !is_any_taken) return std::nullopt;
    reason = spool::NoBlock::kWriterEnded;
    if (is_full && !owner_.is_read() && !spares) return std::nullopt;
    reason = spool::NoBlock::kWriterStands;
    if (given_back_ != given_back) {
      since = Clock::now();
      is_full = false;  // an empty segment can make way for another one
    }
    given_back = given_back_;
    if (lose_patience(Clock::now() - since) <= Clock::duration::zero()) return std::nullopt;
  }
}

spool::Missing TargetRing::missing() const noexcept {
  return header_ != nullptr ? spool::missing_in(*header_) : spool::Missing{};
}

std::optional<spool::CutDone> TargetRing::wait_for_cut(uint64_t number) const noexcept {
  constexpr timespec kPause{0, 5'000'000};
  for (const auto end = Clock::now() + std::chrono::minutes(1); header_ != nullptr && Clock::now() < end;) {
    if (header_->answered.load(std::memory_order_acquire) == number) {
      return spool::CutDone{number, header_->invocations, header_->renamed};
    }
    nanosleep(&kPause, nullptr);
  }
  return std::nullopt;
}

// Returns what is left of the program's patience after so long a wait in vain. If it is none, that wait has cost it
// all: no launch waits any more until blocks come back.
TargetRing::Clock::duration TargetRing::lose_patience(Clock::duration waited) {
  const std::lock_guard lock(mutex_);
  const auto left = patience_ - waited;
  if (left <= Clock::duration::zero()) patience_ = Clock::duration::zero();
  return left;
}

void TargetRing::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Segment& segment : segments_) unpin(segment);
  segments_.clear();
  next_.reset();
  taken_.clear();
  header_ = nullptr;
  header_memory_.reset();
  file_.close();
}

// Takes the first block that fits. Returns nothing if no segment has this much contiguous space.
std::optional<RingBlock> TargetRing::take(uint64_t bytes) {
  if (taken_.size() == spool::RingHeader::kBlocks) return std::nullopt;
  for (Segment& segment : segments_) {
    const auto at = std::ranges::find_if(segment.free, [&](const auto& range) { return range.second >= bytes; });
    if (at == segment.free.end()) continue;
    const auto [offset, size] = *at;
    uint32_t number = 0;
    while (taken_.contains(number)) ++number;
    taken_.emplace(number, Range{offset, bytes});
    segment.free.erase(at);
    if (size > bytes) segment.free.emplace(offset + bytes, size - bytes);
    pin_again(segment);
    if (++ticket_ == 0) ++ticket_;  // 0 is no ticket
    header_->taken[number].store(ticket_, std::memory_order_release);
    return RingBlock(&header_->taken[number], ticket_, number, offset,
                     segment.memory->data() + (offset - segment.memory->offset()));
  }
  return std::nullopt;
}

// Collects the blocks that the writer or this process has freed. Each restores as much of a lost patience as a working
// writer takes to free another block.
void TargetRing::collect() {
  constexpr std::chrono::milliseconds kForBlock{100};
  for (auto block = taken_.begin(); block != taken_.end();) {
    if (header_->taken[block->first].load(std::memory_order_acquire) != 0) {
      ++block;
      continue;
    }
    add_free(block->second);
    block = taken_.erase(block);
    ++given_back_;
    patience_ = std::min<Clock::duration>(patience_ + kForBlock, kPatience);
  }
}

void TargetRing::add_free(Range range) {
  const auto segment = std::ranges::find_if(segments_, [&](const Segment& candidate) {
    const uint64_t begin = candidate.memory->offset();
    return range.offset >= begin && range.offset < begin + candidate.memory->bytes();
  });
  if (segment == segments_.end()) return;
  auto at = segment->free.emplace(range.offset, range.bytes).first;
  const auto next = std::next(at);
  if (next != segment->free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    segment->free.erase(next);
  }
  if (at == segment->free.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  segment->free.erase(at);
}

uint64_t TargetRing::segment_bytes() const {
  uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.memory->bytes();
  return bytes;
}

// Removes free segments that are too small, to make room for a larger one.
void TargetRing::drop_empty_segments(uint64_t bytes) {
  for (size_t i = 0; i < segments_.size() && segment_bytes() + bytes > most_bytes_;) {
    const Segment& segment = segments_[i];
    const uint64_t size = segment.memory->bytes(), begin = segment.memory->offset();
    const bool empty = segment.free.size() == 1 && segment.free.begin()->second == size;
    if (!empty) {
      ++i;
      continue;
    }
    unpin(segment);
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
    if (const int file = file_.get(); file >= 0) {
      fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(size));
    }
  }
}

// Returns at first space for several calls, then twice as much. Returns nothing if that exceeds the limit.
std::optional<uint64_t> TargetRing::next_size(uint64_t bytes) const {
  const uint64_t so_far = segment_bytes();
  if (so_far + bytes > most_bytes_) return std::nullopt;
  return std::min(std::max({bytes, so_far > 0 ? so_far : 6 * bytes, kSmallestSegment}),
                  std::max(bytes, in_pages(most_bytes_ - so_far)));
}

// Prepares the next segment when half of the ring is in use.
void TargetRing::prepare_next() {
  uint64_t free = 0;
  for (const Segment& segment : segments_) {
    for (const auto& [offset, bytes] : segment.free) free += bytes;
  }
  const auto size = next_size(kSmallestSegment);
  const int file = file_.get();
  if (next_ || has_failed_ || !size || file < 0 || free > segment_bytes() / 2) return;
  next_ = SegmentMemory::prepare(file, end_, *size);
  has_failed_ = !next_;
  end_ += *size;  // also if it has failed: the writer may have mapped that part of the file
}

// Grows by less if the process may not have that much. Returns false if the ring has reached its limit, or there is no
// memory. Does not grow while a segment is being prepared.
bool TargetRing::grow(uint64_t bytes) {
  if (next_ && next_->state() == SegmentMemory::State::kUnderWay) return true;
  if (next_ && next_->state() == SegmentMemory::State::kReady) {
    add(std::exchange(next_, nullptr));
    if (segments_.back().memory->bytes() >= bytes) return true;
  }
  has_failed_ = has_failed_ || next_;
  next_.reset();
  drop_empty_segments(bytes);
  const int file = file_.get();
  const uint64_t largest = file >= 0 ? next_size(bytes).value_or(0) : 0;
  for (uint64_t size = largest; size >= bytes; size = size > bytes ? std::max(bytes, in_pages(size / 2)) : 0) {
    auto memory = SegmentMemory::make(file, end_, size);
    if (!memory) continue;
    end_ += size;
    add(std::move(memory));
    return true;
  }
  return false;
}

void TargetRing::add(std::unique_ptr<SegmentMemory> memory) {
  std::map<uint64_t, uint64_t> free{{memory->offset(), memory->bytes()}};
  segments_.push_back({std::move(memory), std::move(free), ~uint64_t{0}});
  pin_again(segments_.back());
}

void TargetRing::pin_again(Segment& segment) {
  const uint64_t epoch = pin_epoch_;
  if (owner_.pin == nullptr || segment.pin_epoch == epoch) return;
  owner_.pin(segment.memory->data(), segment.memory->bytes());
  segment.pin_epoch = epoch;
}

void TargetRing::unpin(const Segment& segment) {
  if (owner_.unpin != nullptr && segment.pin_epoch == pin_epoch_) owner_.unpin(segment.memory->data());
}

}  // namespace msda::record
