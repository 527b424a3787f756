#include "recorder/spool/ring.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/spool/follower.h"

namespace msda::spool {

RingReader::RingReader(int file) : file_(file) { map(RingHeader::kBytes); }

RingReader::~RingReader() {
  if (memory_ != nullptr) munmap(memory_, mapped_);
  close(file_);
}

void RingReader::map(uint64_t at_least) {
  if (at_least <= mapped_) return;
  struct stat status {};
  if (fstat(file_, &status) != 0 || static_cast<uint64_t>(status.st_size) < at_least) {
    throw Error("the spool names bytes that the memory shared with its program does not have");
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  // Moved, the pages that were touched stay mapped.
  void* memory = memory_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
                                    : mremap(memory_, mapped_, bytes, MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) throw Error("the memory shared with the recorded program cannot be mapped");
  memory_ = static_cast<std::byte*>(memory);
  mapped_ = bytes;
}

std::span<const std::byte> RingReader::bytes(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, size, &end)) end = ~uint64_t{0};
  map(end);
  return {memory_ + offset, size};
}

void RingReader::release(uint32_t block) {
  if (block >= RingHeader::kBlocks) return;
  reinterpret_cast<RingHeader*>(memory_)->taken[block].store(0, std::memory_order_release);
}

}  // namespace msda::spool
