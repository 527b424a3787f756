// How the kernel is launched that reads what a kernel's twins (twin.h) left in memory: how many additions there were at
// each address, and the greatest addend; and that compares another launch's results with the program's own, and their
// differences with what another order of these additions can change (evidence.ptx).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "recorder/device/piece_table.h"

namespace msda::record {

inline constexpr char kEvidenceKernel[] = "msda_record_evidence";
inline constexpr unsigned kEvidenceThreads = 256;  // of a block
inline constexpr size_t kMostEvidencePieces = 16;  // of a launch

// The type of the numbers that are added.
enum class AddedType : uint32_t { kFloat32, kFloat64, kFloat16, kBfloat16 };

// What is known of a type's arithmetic. `flushed`: what a sum may lose beside rounding, for each addition and once
// more. An atomic addition of float32 takes a subnormal addend as 0, and gives 0 in place of a subnormal sum; in each
// of two sums that is at most 2 * 2^-126 an addition and once more, and what rounding makes of it later at most e times
// that.
struct AddedArithmetic {
  double unit, greatest, flushed;
};
inline constexpr AddedArithmetic arithmetic_of(AddedType type) {
  switch (type) {
    case AddedType::kFloat32:
      return {0x1p-24, 0x1.fffffep127, 16 * 0x1p-126};
    case AddedType::kFloat64:
      return {0x1p-53, 0x1.fffffffffffffp1023, 0};
    case AddedType::kFloat16:
      return {0x1p-11, 65504, 0};
    case AddedType::kBfloat16:
      return {0x1p-8, 0x1.fep127, 0};
  }
  return {};
}

// A piece of device memory, and beside it as many bytes each: what was there without the additions; how many additions
// there were, in the first 32 bits of each word; the magnitude of the greatest addend; and what a trial has kept
// (settle_launch.h). All but the flags begin at multiples of 16.
struct EvidencePiece {
  uint64_t address, initial, counts, magnitudes, before, after, flags, bytes;
};

enum class EvidenceStep : uint32_t {
  kCount,    // The memory is as the twin of kCount left it: writes counts where it differs from `initial`. They were 0.
  kClear,    // Makes words 0 that are added to.
  kMeasure,  // The memory is as the twin of kGreatest or kLeast left it: magnitudes become at least those in it.
  kCompare,  // The memory is as another launch left it: compares it with the program's own result.
};

// What the kernel adds to, or makes greater.
struct EvidenceResults {
  uint64_t addresses, additions, most_additions;  // kCount
  uint64_t other_words;                           // kCount: that differ otherwise than by additions
  uint64_t differing, exceeding, unbounded;       // kCompare: numbers: that differ, by more than the bound, without one
  uint64_t elsewhere;                             // kCompare: words that differ, and are not added to
  uint64_t greatest_difference;                   // kCompare: the upper halves of it and of its bound, as float64
  uint64_t greatest_share;                        // kCompare: of a bound, float64
  uint64_t greatest_magnitude;                    // kCompare: float64

  double difference() const { return std::bit_cast<double>(greatest_difference & 0xFFFFFFFF00000000); }
  double bound() const { return std::bit_cast<double>(greatest_difference << 32); }
  double share() const { return std::bit_cast<double>(greatest_share); }
  double magnitude() const { return std::bit_cast<double>(greatest_magnitude); }
};

class EvidenceTable : public PieceTable<EvidencePiece, kMostEvidencePieces, 4 * kEvidenceThreads> {
 public:
  // `results`, on the device, are EvidenceResults.
  EvidenceTable(EvidenceStep step, AddedType type, uint64_t results)
      : step_(static_cast<uint32_t>(step)),
        type_(static_cast<uint32_t>(type)),
        arithmetic_(arithmetic_of(type)),
        results_(results) {}

  // The kernel's parameters.
  std::array<void*, 7> parameters() {
    return {&pieces_, &step_, &type_, &arithmetic_.unit, &arithmetic_.greatest, &arithmetic_.flushed, &results_};
  }

 private:
  uint32_t step_, type_;
  AddedArithmetic arithmetic_;
  uint64_t results_;
  static_assert(sizeof pieces_ == 1024 && sizeof(EvidenceResults) == 88, "as in evidence.ptx");
};

}  // namespace msda::record
