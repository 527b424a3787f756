// How the kernel is launched that finds words of device memory which may point out of it (scan.ptx).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kScanKernel[] = "msda_record_scan";
inline constexpr unsigned kScanThreads = 256;     // of a block
inline constexpr size_t kMostScannedPieces = 32;  // of a launch
inline constexpr size_t kMostPointersFound = 4095;

// Pieces at addresses that are multiples of 8.
class ScanTable {
 public:
  // Words from `least` on, and less than `end`. `found`, on the device: 1 + kMostPointersFound words of 8 bytes, the
  // first of which the kernel adds to, for each pointer that it finds; the pointers are in the others.
  ScanTable(uint64_t least, uint64_t end, uint64_t found) : least_(least), range_(end - least), found_(found) {}

  // False if the table is full.
  bool add(uint64_t address, uint64_t bytes) {
    if (count_ == kMostScannedPieces) return false;
    pieces_[count_++] = {address, bytes};
    most_bytes_ = std::max(most_bytes_, bytes);
    return true;
  }
  unsigned count() const { return count_; }
  // Of the grid, whose rows are the pieces.
  unsigned blocks() const {
    constexpr uint64_t kBytesOfBlock = 8 * kScanThreads, kMostBlocks = 1024;
    return static_cast<unsigned>(std::clamp<uint64_t>(most_bytes_ / kBytesOfBlock, 1, kMostBlocks));
  }
  // The kernel's parameters.
  std::array<void*, 4> parameters() { return {&pieces_, &least_, &range_, &found_}; }

 private:
  struct Piece {
    uint64_t address, bytes;
  };
  Piece pieces_[kMostScannedPieces] = {};
  uint64_t least_, range_, found_, most_bytes_ = 0;
  unsigned count_ = 0;
  static_assert(sizeof pieces_ == 512, "as in scan.ptx");
};

}  // namespace msda::record
