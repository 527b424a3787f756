// How the digest's kernel (digest.ptx) is launched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kDigestKernel[] = "msda_record_digest";
inline constexpr unsigned kDigestThreads = 256;  // of a block
inline constexpr size_t kMostDigestRanges = 32;  // of a launch
inline constexpr size_t kMostDigests = 64;       // of a slot
// Returns the size of a slot on the host: a sequence number, then two sums for each digest.
constexpr size_t digest_slot_bytes(size_t digests) { return (1 + 2 * digests) * sizeof(uint64_t); }
// On the device: the sums of all digests of a slot, and a count of blocks.
inline constexpr size_t kDigestSlotBytes = digest_slot_bytes(kMostDigests);

// Where a launch's digests go. Launches on one stream may share a slot: each adds to sums of its own, and a later one
// may hand over those of an earlier one with its own.
struct DigestTarget {
  unsigned long long sums = 0;  // on the device
  uint64_t* slot = nullptr;     // in pinned memory of the host; null: a later launch hands over
  uint64_t sequence = 0;        // what the slot's number becomes when everything is handed over
  unsigned first = 0;           // the launch's first digest
  unsigned from = 0, end = 0;   // the digests that it hands over
};

// What one launch digests: at most kMostDigestRanges ranges of device memory, of the given total size.
class DigestTable {
 public:
  // A block of threads takes a chunk of 2^bits bytes: small enough to occupy the whole device, and no smaller, because
  // every block has a fixed cost.
  explicit DigestTable(uint64_t total_bytes) {
    constexpr uint64_t kBlocks = 1024;
    while (bits_ < 20 && total_bytes >> bits_ > kBlocks) ++bits_;
    std::ranges::fill(first_blocks_, ~uint32_t{0});
  }

  // The first `before` bytes, less than 16, are not read and count as zeros. Returns false if the table is full or the
  // range is empty.
  bool add(uint64_t address, uint64_t bytes, uint64_t before = 0) {
    constexpr int kBefore = 60;  // the bit from which on it stands
    if (count_ == kMostDigestRanges || bytes == 0) return false;
    pieces_[count_] = {address, bytes | before << kBefore};
    first_blocks_[count_++] = static_cast<uint32_t>(blocks_);
    blocks_ += ((bytes - 1) >> bits_) + 1;
    return true;
  }
  unsigned count() const { return count_; }
  uint64_t blocks() const { return blocks_; }  // of the launch; a valid launch has at most 2^31 - 1
  bool launchable() const { return count_ > 0 && blocks_ <= 0x7fffffff; }

  // The kernel's parameters.
  std::array<void*, 9> parameters(DigestTarget& target) {
    return {&pieces_,      &first_blocks_, &target.sums, &target.slot, &target.sequence,
            &target.first, &target.from,   &target.end,  &bits_};
  }

 private:
  struct Piece {
    uint64_t address, bytes_and_before;
  };
  Piece pieces_[kMostDigestRanges] = {};
  uint32_t first_blocks_[kMostDigestRanges];  // of each piece; beyond the last piece, the largest number
  unsigned count_ = 0, bits_ = 14;
  uint64_t blocks_ = 0;
  static_assert(sizeof pieces_ == 512 && sizeof first_blocks_ == 128, "as in digest.ptx");
};

}  // namespace msda::record
