#include "recorder/spool/ring.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "recorder/spool/follower.h"

namespace msda::spool {
namespace {

const char* why(NoBlock reason) {
  switch (reason) {
    case NoBlock::kTooLarge:
      return "their tensors take more memory than the program shares with the writer; set MSDA_RECORD_RING_BYTES "
             "higher";
    case NoBlock::kNoMemory:
      return "there was no memory that the program could share with the writer; raise ulimit -f or ulimit -v";
    case NoBlock::kWriterStands:
      return "the writer stood still, as on a slow disk; record less (--kernel, --keep last:K), write to another disk, "
             "or set MSDA_RECORD_RING_BYTES higher";
    case NoBlock::kWriterEnded:
      break;
  }
  return "the writer had ended, and the memory shared with it held no more of them at once; see what killed it, or set "
         "MSDA_RECORD_RING_BYTES higher";
}

}  // namespace

std::string Missing::description() const {
  return std::to_string(missing) + " of " + std::to_string(launches) + " launches are missing: " + why(most);
}

Missing missing_in(const RingHeader& header) {
  Missing all{header.launches, 0, NoBlock::kTooLarge};
  uint64_t most = 0;
  for (size_t reason = 0; reason < RingHeader::kReasons; ++reason) {
    const uint64_t some = header.missing[reason];
    all.missing += some;
    if (some > most) all.most = static_cast<NoBlock>(reason);
    most = std::max(most, some);
  }
  return all;
}

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

void RingReader::release(uint32_t block) {
  if (block < RingHeader::kBlocks) header().taken[block].store(0, std::memory_order_release);
}

}  // namespace msda::spool
