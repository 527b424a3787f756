// How the kernel is launched that keeps and compares what launches changed (settle.ptx).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "recorder/device/piece_table.h"

namespace msda::record {

inline constexpr char kSettleKernel[] = "msda_record_settle";
inline constexpr unsigned kSettleThreads = 256;   // of a block
inline constexpr size_t kMostSettledPieces = 32;  // of a launch
inline constexpr uint64_t kBytesOfFlag = 16;      // of memory, each of which has a byte of flags

// A piece of device memory, and beside it: a copy from before a launch, and room for what the launch changes, and for
// which of it that was. All begin at multiples of 16.
struct SettledPiece {
  uint64_t address, before, after, flags, bytes;
};

enum class Settling : uint32_t {
  kKeep,           // what was changed since `before`, and put back what was before
  kCompare,        // what was kept, and put back there what was before
  kCompareAndEnd,  // everything, and put back what was kept
};

class SettleTable : public PieceTable<SettledPiece, kMostSettledPieces, 16 * kSettleThreads> {
 public:
  // `count`, on the device: a 64-bit number, to which the 32-bit words are added that differ from what was kept, and,
  // where nothing was, from what was before. The number after it, for the next comparison, becomes 0.
  SettleTable(Settling settling, uint64_t count) : mode_(static_cast<uint32_t>(settling)), count_at_(count) {}

  // The kernel's parameters.
  std::array<void*, 3> parameters() { return {&pieces_, &mode_, &count_at_}; }

 private:
  uint32_t mode_;
  uint64_t count_at_;
  static_assert(sizeof pieces_ == 1280, "as in settle.ptx");
};

}  // namespace msda::record
