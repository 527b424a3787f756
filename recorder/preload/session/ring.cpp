#include "recorder/preload/session/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "recorder/preload/session/writer_process.h"

namespace msda::record {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSmallestSegment = 128 << 20;

uint64_t in_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void* map_shared(int file, uint64_t offset, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTFORK);  // a child has no business with it
  return memory;
}

}  // namespace

bool Ring::open(uint64_t most_bytes, const Owner& owner) noexcept {
  most_bytes_ = most_bytes;
  owner_ = owner;
  const int file = memfd_create("msda-record", MFD_CLOEXEC);
  if (file < 0) return false;
  file_ = above_standard(file);
  void* header =
      ftruncate(file_, spool::RingHeader::kBytes) == 0 ? map_shared(file_, 0, spool::RingHeader::kBytes) : nullptr;
  if (header == nullptr) {
    close(file_);
    file_ = -1;
    return false;
  }
  header_ = new (header) spool::RingHeader{};
  return true;
}

void Ring::abandon() noexcept {
  if (file_ >= 0) close(file_);
  new (this) Ring;  // without what it held: locks and memory of the parent's
}

std::optional<Ring::Block> Ring::reserve(uint64_t bytes) noexcept {
  try {
    constexpr int kTries = 50000;
    const timespec pause{0, 200000};
    for (int i = 0; i < kTries; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (header_ == nullptr || bytes > most_bytes_) return std::nullopt;
        collect();
        auto block = take(std::max(in_pages(bytes), kPage));
        if (!block && grow(in_pages(bytes))) block = take(std::max(in_pages(bytes), kPage));
        if (block) return block;
      }
      if (i == 0) owner_.spare();
      nanosleep(&pause, nullptr);
    }
  } catch (...) {
  }
  return std::nullopt;
}

void Ring::give_back(uint32_t block) noexcept { header_->taken[block].store(0, std::memory_order_release); }

// First fit. Nothing if no segment has so much in one piece.
std::optional<Ring::Block> Ring::take(uint64_t bytes) {
  if (taken_.size() == spool::RingHeader::kBlocks) return std::nullopt;
  for (Segment& segment : segments_) {
    for (auto at = segment.free.begin(); at != segment.free.end(); ++at) {
      if (at->second < bytes) continue;
      const auto [offset, size] = *at;
      segment.free.erase(at);
      if (size > bytes) segment.free.emplace(offset + bytes, size - bytes);
      uint32_t number = 0;
      while (taken_.contains(number)) ++number;
      taken_.emplace(number, Range{offset, bytes});
      header_->taken[number].store(1, std::memory_order_release);
      return Block{number, offset, segment.memory + (offset - segment.offset)};
    }
  }
  return std::nullopt;
}

// What the writer has given back is free again.
void Ring::collect() {
  for (auto block = taken_.begin(); block != taken_.end();) {
    if (header_->taken[block->first].load(std::memory_order_acquire) != 0) {
      ++block;
      continue;
    }
    const Range range = block->second;
    block = taken_.erase(block);
    for (Segment& segment : segments_) {
      if (range.offset < segment.offset || range.offset >= segment.offset + segment.bytes) continue;
      auto at = segment.free.emplace(range.offset, range.bytes).first;
      const auto next = std::next(at);
      if (next != segment.free.end() && at->first + at->second == next->first) {
        at->second += next->second;
        segment.free.erase(next);
      }
      if (at != segment.free.begin()) {
        const auto before = std::prev(at);
        if (before->first + before->second == at->first) {
          before->second += at->second;
          segment.free.erase(at);
        }
      }
    }
  }
}

// At first room for several calls, then as much again as there is: pinning takes its time, and disturbs what the device
// is doing then, a tuner's measurements for one.
bool Ring::grow(uint64_t bytes) {
  uint64_t so_far = 0;
  for (const Segment& segment : segments_) so_far += segment.bytes;
  // Segments that are too small for what is wanted make room for one that is not.
  for (size_t i = 0; i < segments_.size() && so_far + bytes > most_bytes_;) {
    const Segment& segment = segments_[i];
    const bool empty = segment.free.size() == 1 && segment.free.begin()->second == segment.bytes;
    if (!empty) {
      ++i;
      continue;
    }
    so_far -= segment.bytes;
    owner_.unpin(segment.memory);
    munmap(segment.memory, segment.bytes);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(segment.offset),
              static_cast<off_t>(segment.bytes));
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (so_far + bytes > most_bytes_) return false;
  const uint64_t size = std::min(std::max({bytes, so_far > 0 ? so_far : 6 * bytes, kSmallestSegment}),
                                 std::max(bytes, in_pages(most_bytes_ - so_far)));
  if (ftruncate(file_, static_cast<off_t>(end_ + size)) != 0) return false;
  void* memory = map_shared(file_, end_, size);
  if (memory == nullptr) return false;
  owner_.pin(memory, size);
  segments_.push_back({end_, size, static_cast<std::byte*>(memory), {{end_, size}}});
  end_ += size;
  return true;
}

}  // namespace msda::record
