#include "recorder/preload/session/target_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <new>

#include "recorder/spool/write_signals.h"

namespace msda::record {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSmallestSegment = 128 << 20;

uint64_t in_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Null if there is no memory. All pages are allocated before anything is written: a page without memory would be a
// SIGBUS in the program.
void* map_shared(int file, uint64_t offset, uint64_t bytes) {
  const spool::WriteSignalsHeld held;  // the limit on file sizes applies to this file, too
  if (fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTFORK);  // a forked child does not need it
  return memory;
}

}  // namespace

bool TargetRing::open(uint64_t most_bytes, const Owner& owner) noexcept {
  most_bytes_ = most_bytes;
  owner_ = owner;
  file_ = spool::OwnedDescriptor(memfd_create("msda-record", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = file_.get();
  void* header = file >= 0 ? map_shared(file, 0, spool::RingHeader::kBytes) : nullptr;
  if (header == nullptr) {
    file_.close();
    return false;
  }
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
  }  // without the seal, the writer could shrink the file
  header_ = new (header) spool::RingHeader{};
  header_->most_bytes = most_bytes;
  return true;
}

std::optional<RingBlock> TargetRing::reserve(uint64_t bytes) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{10};
  constexpr timespec kPause{0, 200000};
  if (header_ == nullptr || bytes > most_bytes_) return std::nullopt;
  try {
    auto since = Clock::now();
    uint64_t given_back = given_back_;
    for (bool first = true;; first = false) {
      {
        const std::lock_guard lock(mutex_);
        collect();
        auto block = take(std::max(in_pages(bytes), kPage));
        if (!block && grow(in_pages(bytes))) block = take(std::max(in_pages(bytes), kPage));
        if (block) return block;
      }
      if (first) owner_.spare();
      if (given_back_ != given_back) since = Clock::now();
      given_back = given_back_;
      if (!first && (!owner_.is_read() || Clock::now() - since > kPatience)) return std::nullopt;
      nanosleep(&kPause, nullptr);
    }
  } catch (...) {
  }
  return std::nullopt;
}

void TargetRing::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Segment& segment : segments_) {
    if (owner_.unpin != nullptr && segment.pin_epoch == pin_epoch_) owner_.unpin(segment.memory);
    munmap(segment.memory, segment.bytes);
  }
  segments_.clear();
  taken_.clear();
  if (header_ != nullptr) munmap(header_, spool::RingHeader::kBytes);
  header_ = nullptr;
  file_.close();
}

// First fit. Nothing if no segment has this much contiguous space.
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
    header_->taken[number].store(1, std::memory_order_release);
    return RingBlock(&header_->taken[number], number, offset, segment.memory + (offset - segment.offset));
  }
  return std::nullopt;
}

// Collects the blocks that the writer or this process has freed.
void TargetRing::collect() {
  for (auto block = taken_.begin(); block != taken_.end();) {
    if (header_->taken[block->first].load(std::memory_order_acquire) != 0) {
      ++block;
      continue;
    }
    add_free(block->second);
    block = taken_.erase(block);
    ++given_back_;
  }
}

void TargetRing::add_free(Range range) {
  const auto segment = std::ranges::find_if(segments_, [&](const Segment& candidate) {
    return range.offset >= candidate.offset && range.offset < candidate.offset + candidate.bytes;
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
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

// Removes free segments that are too small, to make room for a larger one.
void TargetRing::drop_empty_segments(uint64_t bytes) {
  for (size_t i = 0; i < segments_.size() && segment_bytes() + bytes > most_bytes_;) {
    const Segment& segment = segments_[i];
    const bool empty = segment.free.size() == 1 && segment.free.begin()->second == segment.bytes;
    if (!empty) {
      ++i;
      continue;
    }
    if (owner_.unpin != nullptr && segment.pin_epoch == pin_epoch_) owner_.unpin(segment.memory);
    munmap(segment.memory, segment.bytes);
    if (const int file = file_.get(); file >= 0) {
      fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(segment.offset),
                static_cast<off_t>(segment.bytes));
    }
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// At first space for several calls, then twice as much: pinning is slow, and disturbs what the device is doing, such as
// an autotuner's measurements.
bool TargetRing::grow(uint64_t bytes) {
  drop_empty_segments(bytes);
  const uint64_t so_far = segment_bytes();
  const int file = file_.get();
  if (file < 0 || so_far + bytes > most_bytes_) return false;
  const uint64_t size = std::min(std::max({bytes, so_far > 0 ? so_far : 6 * bytes, kSmallestSegment}),
                                 std::max(bytes, in_pages(most_bytes_ - so_far)));
  segments_.reserve(segments_.size() + 1);
  void* memory = map_shared(file, end_, size);
  if (memory == nullptr) return false;
  segments_.push_back({end_, size, static_cast<std::byte*>(memory), {}, ~uint64_t{0}});
  segments_.back().free.emplace(end_, size);
  pin_again(segments_.back());
  end_ += size;
  return true;
}

void TargetRing::pin_again(Segment& segment) {
  const uint64_t epoch = pin_epoch_;
  if (owner_.pin == nullptr || segment.pin_epoch == epoch) return;
  owner_.pin(segment.memory, segment.bytes);
  segment.pin_epoch = epoch;
}

}  // namespace msda::record
