// How the kernel is launched that fills memory that nobody wrote with a pattern, and finds results that depend on it
// (unwritten.ptx).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "recorder/device/piece_table.h"

namespace msda::record {

inline constexpr char kUnwrittenKernel[] = "msda_record_unwritten";
inline constexpr unsigned kUnwrittenThreads = 256;     // of a block
inline constexpr size_t kMostUnwrittenPieces = 32;     // of a launch
inline constexpr uint64_t kBytesOfUnwrittenRow = 128;  // of memory, whose 32 words have a word of bits

// A piece of device memory as a SettledPiece has it, after Settling::kKeep; and bits of its 32-bit words: those that
// nobody had written before the program's launch, and those of them that no checked launch has written since. 0: all
// are written.
struct UnwrittenPiece {
  uint64_t address, before, after, flags, bits, left, bytes;
};

// The pattern depends on the address. It is made of numbers from 0 to 15, which are zero or nearly so as floating-point
// numbers, and small as integers; or, inverted, from -16 to -1, which are NaN.
enum class Poison : uint32_t { kSmall = 0, kNaN = 0xFFFFFFFF };

class UnwrittenTable
    : public PieceTable<UnwrittenPiece, kMostUnwrittenPieces, kBytesOfUnwrittenRow * kUnwrittenThreads> {
 public:
  enum Mode : uint32_t {
    kFill,   // unwritten words
    kCheck,  // after a launch on memory that was filled so
  };
  // `counts`, on the device: two 64-bit numbers for each piece, to which kCheck adds the words whose result depends on
  // the pattern, and the words that nobody has written yet.
  UnwrittenTable(Mode mode, Poison poison, uint64_t counts)
      : mode_(mode), poison_(static_cast<uint32_t>(poison)), counts_(counts) {}

  // The kernel's parameters.
  std::array<void*, 4> parameters() { return {&pieces_, &mode_, &poison_, &counts_}; }

 private:
  uint32_t mode_, poison_;
  uint64_t counts_;
  static_assert(sizeof pieces_ == 1792, "as in unwritten.ptx");
};

}  // namespace msda::record
