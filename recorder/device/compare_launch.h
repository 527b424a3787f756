// How the comparison's kernel (compare.ptx) is launched: it counts the 32-bit words in which pieces of device memory
// differ.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kCompareKernel[] = "msda_record_compare";
inline constexpr unsigned kCompareThreads = 256;   // of a block
inline constexpr size_t kMostComparedPieces = 32;  // of a launch

// Pairs of pieces of equal size, at addresses that are multiples of 16.
class CompareTable {
 public:
  // `counts`, on the device: one 64-bit number for each piece, which the kernel adds to.
  explicit CompareTable(uint64_t counts) : counts_(counts) {}

  // False if the table is full.
  bool add(uint64_t address, uint64_t other, uint64_t bytes) {
    if (count_ == kMostComparedPieces) return false;
    pieces_[count_++] = {address, other, bytes};
    most_bytes_ = std::max(most_bytes_, bytes);
    return true;
  }
  unsigned count() const { return count_; }
  // Of the grid, whose rows are the pieces.
  unsigned blocks() const {
    constexpr uint64_t kBytesOfBlock = 16 * kCompareThreads, kMostBlocks = 1024;
    return static_cast<unsigned>(std::clamp<uint64_t>(most_bytes_ / kBytesOfBlock, 1, kMostBlocks));
  }
  // The kernel's parameters.
  std::array<void*, 2> parameters() { return {&pieces_, &counts_}; }

 private:
  struct Piece {
    uint64_t address, other, bytes;
  };
  Piece pieces_[kMostComparedPieces] = {};
  uint64_t counts_, most_bytes_ = 0;
  unsigned count_ = 0;
  static_assert(sizeof pieces_ == 768, "as in compare.ptx");
};

}  // namespace msda::record
