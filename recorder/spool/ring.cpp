#include "recorder/spool/ring.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "recorder/spool/follower.h"

namespace msda::spool {

RingReader::RingReader(int file) : file_(file) {
  map_what_is_new();
  if (mapped_ < RingHeader::kBytes) throw Error("the memory shared with the recorded program cannot be mapped");
}

RingReader::~RingReader() {
  for (const auto part : parts_) munmap(part.data(), part.size());
  close(file_);
}

void RingReader::map_what_is_new() {
  struct stat status {};
  if (fstat(file_, &status) != 0 || static_cast<uint64_t>(status.st_size) <= mapped_) return;
  const uint64_t bytes = static_cast<uint64_t>(status.st_size) - mapped_;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(mapped_));
  if (memory == MAP_FAILED) throw Error("the memory shared with the recorded program cannot be mapped");
  parts_.emplace_back(static_cast<std::byte*>(memory), bytes);
  mapped_ += bytes;
}

std::span<const std::byte> RingReader::bytes(uint64_t offset, uint64_t size) {
  if (size > mapped_ || offset > mapped_ - size) map_what_is_new();
  uint64_t begin = 0;
  for (const auto part : parts_) {
    if (offset >= begin && offset - begin <= part.size() && size <= part.size() - (offset - begin)) {
      return part.subspan(offset - begin, size);
    }
    begin += part.size();
  }
  throw Error("the spool names bytes that the memory shared with its program does not have");
}

void RingReader::answer(const CutDone& cut) {
  header().invocations = cut.invocations;
  header().renamed = cut.renamed;
  header().answered.store(cut.number, std::memory_order_release);
}

Missing RingReader::missing() const {
  Missing all{header().launches, 0, NoBlock::kTooLarge};
  uint64_t most = 0;
  for (size_t reason = 0; reason < RingHeader::kReasons; ++reason) {
    const uint64_t some = header().missing[reason];
    all.missing += some;
    if (some > most) all.most = static_cast<NoBlock>(reason);
    most = std::max(most, some);
  }
  return all;
}

void RingReader::release(uint32_t block) {
  if (block < RingHeader::kBlocks) header().taken[block].store(0, std::memory_order_release);
}

}  // namespace msda::spool
