// How the kernel is launched that copies device memory aside and finds words of it which may point out of it
// (save.ptx).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "recorder/device/piece_table.h"

namespace msda::record {

inline constexpr char kSaveKernel[] = "msda_record_save";
inline constexpr unsigned kSaveThreads = 256;   // of a block
inline constexpr size_t kMostSavedPieces = 32;  // of a launch
inline constexpr size_t kMostPointersFound = 4095;

// A piece of device memory, and the place of its copy, at multiples of 16.
struct SavedPiece {
  uint64_t address, copy, bytes;
};

class SaveTable : public PieceTable<SavedPiece, kMostSavedPieces, 16 * kSaveThreads> {
 public:
  // Pointers are words from `least` on, and less than `end`. `found`, on the device: 1 + kMostPointersFound words of 8
  // bytes, to the first of which the kernel adds 1 for each pointer that it finds; the first was `known` before. The
  // pointers found are in the others. `any`: an address on the host of 32 bits, which become 1 if any is found.
  SaveTable(uint64_t least, uint64_t end, uint64_t found, uint64_t known, uint64_t any)
      : least_(least), range_(end - least), found_(found), known_(known), any_(any) {}

  // The kernel's parameters.
  std::array<void*, 6> parameters() { return {&pieces_, &least_, &range_, &found_, &known_, &any_}; }

 private:
  uint64_t least_, range_, found_, known_, any_;
  static_assert(sizeof pieces_ == 768, "as in save.ptx");
};

}  // namespace msda::record
