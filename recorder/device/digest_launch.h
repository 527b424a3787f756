// How the digest's kernel (digest.ptx) is launched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kDigestKernel[] = "msda_record_digest";
inline constexpr unsigned kDigestThreads = 256;  // of a block
inline constexpr size_t kMostDigestRanges = 32;
// On the host: a sequence number, then two sums for each range. On the device: the sums, and a count of blocks.
inline constexpr size_t kDigestSlotBytes = (1 + 2 * kMostDigestRanges) * sizeof(uint64_t);

// What one launch digests: at most kMostDigestRanges ranges of device memory, of the given total size.
class DigestTable {
 public:
  // A block of threads takes a chunk of 2^bits bytes: small enough to occupy the whole device, and no smaller, because
  // every block has a fixed cost.
  explicit DigestTable(uint64_t total_bytes) {
    constexpr uint64_t kBlocks = 1024;
    while (bits_ < 20 && total_bytes >> bits_ > kBlocks) ++bits_;
  }

  // False if the table is full or the range is empty.
  bool add(uint64_t address, uint64_t bytes) {
    if (count_ == kMostDigestRanges || bytes == 0) return false;
    pieces_[count_++] = {address, bytes, blocks_};
    blocks_ += ((bytes - 1) >> bits_) + 1;
    return true;
  }
  unsigned count() const { return count_; }
  uint64_t blocks() const { return blocks_; }  // of the launch; a valid launch has at most 2^31 - 1
  bool launchable() const { return count_ > 0 && blocks_ <= 0x7fffffff; }

  // The kernel's parameters. The sums are on the device, the slot in pinned memory of the host.
  std::array<void*, 6> parameters(unsigned long long& sums, uint64_t*& slot, uint64_t& sequence) {
    return {&pieces_, &count_, &sums, &slot, &sequence, &bits_};
  }

 private:
  struct Piece {
    uint64_t address, bytes, first_block;
  };
  Piece pieces_[kMostDigestRanges] = {};
  unsigned count_ = 0, bits_ = 14;
  uint64_t blocks_ = 0;
  static_assert(sizeof(Piece) * kMostDigestRanges == 768, "as in digest.ptx");
};

}  // namespace msda::record
