// How the kernel is launched that copies device memory aside and finds words of it which may point out of it
// (save.ptx).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kSaveKernel[] = "msda_record_save";
inline constexpr unsigned kSaveThreads = 256;   // of a block
inline constexpr size_t kMostSavedPieces = 32;  // of a launch
inline constexpr size_t kMostPointersFound = 4095;

// A piece of device memory, and the place of its copy, at multiples of 16.
struct SavedPiece {
  uint64_t address, copy, bytes;
};

class SaveTable {
 public:
  // Pointers are words from `least` on, and less than `end`. `found`, on the device: 1 + kMostPointersFound words of 8
  // bytes, to the first of which the kernel adds 1 for each pointer that it finds; the first was `known` before. The
  // pointers found are in the others. `any`: an address on the host of 32 bits, which become 1 if any is found.
  SaveTable(uint64_t least, uint64_t end, uint64_t found, uint64_t known, uint64_t any)
      : least_(least), range_(end - least), found_(found), known_(known), any_(any) {}

  // False if the table is full.
  bool add(const SavedPiece& piece) {
    if (count_ == kMostSavedPieces) return false;
    pieces_[count_++] = piece;
    most_bytes_ = std::max(most_bytes_, piece.bytes);
    return true;
  }
  unsigned count() const { return count_; }
  // Of the grid, whose rows are the pieces.
  unsigned blocks() const {
    constexpr uint64_t kBytesOfBlock = 16 * kSaveThreads, kMostBlocks = 1024;
    return static_cast<unsigned>(std::clamp<uint64_t>(most_bytes_ / kBytesOfBlock, 1, kMostBlocks));
  }
  // The kernel's parameters.
  std::array<void*, 6> parameters() { return {&pieces_, &least_, &range_, &found_, &known_, &any_}; }

 private:
  SavedPiece pieces_[kMostSavedPieces] = {};
  uint64_t least_, range_, found_, known_, any_, most_bytes_ = 0;
  unsigned count_ = 0;
  static_assert(sizeof pieces_ == 768, "as in save.ptx");
};

}  // namespace msda::record
