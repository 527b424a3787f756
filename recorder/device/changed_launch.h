// How the kernel is launched that finds what a launch changed, and the digest of that (changed.ptx).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "recorder/device/piece_table.h"
#include "recorder/device/save_launch.h"

namespace msda::record {

inline constexpr char kChangedKernel[] = "msda_record_changed";
inline constexpr unsigned kChangedThreads = 256;  // of a block
inline constexpr uint64_t kChangedUnit = 16;      // bytes of memory that are digested together

// Where a launch wrote is known to numbers of so many bytes: the last bytes of a number often stay as they are.
inline constexpr uint64_t kChangedNumber = 4;

// What was found of a piece: the bytes that the launch changed, from the first of them to the last. The digest is that
// of digest.h, of all units of 16 bytes from the first to the last that hold any of them, with words that are addresses
// counted as 1. Numbers before the first byte, and behind the last one, count as zeros: they are not the launch's.
struct FoundInPiece {
  uint64_t first_sum = 0, second_sum = 0;
  uint64_t complement_of_begin = 0, end = 0;
  uint64_t changed = 0;              // bytes
  uint64_t units_and_addresses = 0;  // units that hold any of them; bit 63: whether there are addresses

  bool has_addresses() const { return units_and_addresses >> 63 != 0; }
  uint64_t units() const { return units_and_addresses << 1 >> 1; }
};
static_assert(sizeof(FoundInPiece) == 48, "as in changed.ptx");

// On the device: what is found of each piece, and a count of blocks. On the host: a sequence number, then what is
// found.
inline constexpr size_t kChangedSlotBytes = kMostSavedPieces * sizeof(FoundInPiece) + sizeof(uint64_t);

class ChangedTable : public PieceTable<SavedPiece, kMostSavedPieces, 16 * kChangedThreads> {
 public:
  // Addresses are words from `least` on, and less than `least` + `range`.
  ChangedTable(uint64_t least, uint64_t range, uint64_t found, uint64_t slot, uint64_t sequence)
      : least_(least), range_(range), found_(found), slot_(slot), sequence_(sequence) {}

  // The kernel is launched twice: to find where memory was changed; and for the digest of that.
  enum class Mode : uint32_t { kFind, kDigest };
  // The kernel's parameters.
  std::array<void*, 7> parameters(Mode mode) {
    mode_ = mode;
    return {&pieces_, &least_, &range_, &found_, &slot_, &sequence_, &mode_};
  }

 private:
  uint64_t least_, range_, found_, slot_, sequence_;
  Mode mode_ = Mode::kFind;
  static_assert(sizeof pieces_ == 768, "as in changed.ptx");
};

}  // namespace msda::record
