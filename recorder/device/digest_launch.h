// How the digest's kernel (digest.ptx) is launched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kDigestKernel[] = "msda_record_digest";
inline constexpr unsigned kDigestThreads = 256;  // of a block
inline constexpr size_t kMostDigestRanges = 32;
// On the host a sequence number and then two sums for each range; on the device sums, and a count of blocks.
inline constexpr size_t kDigestSlotBytes = (1 + 2 * kMostDigestRanges) * sizeof(uint64_t);

// The kernel's first parameter: device memory to digest.
class DigestTable {
 public:
  // False if there is room for no more, or the range is empty.
  bool add(uint64_t address, uint64_t bytes) {
    if (count_ == kMostDigestRanges || bytes == 0) return false;
    pieces_[count_++] = {address, bytes, blocks_};
    blocks_ += (bytes - 1) / kBytesOfABlock + 1;
    return true;
  }
  unsigned count() const { return count_; }    // the second parameter
  uint64_t blocks() const { return blocks_; }  // of the launch; one that can be has at most 2^31 - 1
  bool launchable() const { return count_ > 0 && blocks_ <= 0x7fffffff; }

  struct Piece {
    uint64_t address, bytes, first_block;
  };
  using Parameter = Piece[kMostDigestRanges];
  Parameter& parameter() { return pieces_; }

 private:
  static constexpr uint64_t kBytesOfABlock = 16384;
  Parameter pieces_ = {};
  unsigned count_ = 0;
  uint64_t blocks_ = 0;
};
static_assert(sizeof(DigestTable::Parameter) == 768, "as in digest.ptx");

}  // namespace msda::record
