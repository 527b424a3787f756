// How the gather's kernel (gather.ptx) is launched: it copies a strided tensor's elements one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msda::record {

inline constexpr char kGatherKernel[] = "msda_record_gather";
inline constexpr unsigned kGatherThreads = 256;  // of a block
inline constexpr size_t kMostGatherDimensions = 8;

// Pieces of `piece` bytes from device memory, to memory that the device can write to.
class GatherTable {
 public:
  GatherTable(uint64_t from, uint64_t to, uint64_t piece) : from_(from), to_(to), pieces_bytes_(piece) {}

  // Adds a dimension of the pieces, outermost first; strides in bytes. Returns false if the table is full: one place is
  // reserved for the units of a piece.
  bool add(uint64_t size, uint64_t stride) {
    if (rank_ + 1 == kMostGatherDimensions) return false;
    dimensions_[rank_++] = {size, stride};
    pieces_ *= size;
    return true;
  }
  uint64_t bytes() const { return pieces_ * pieces_bytes_; }
  // Returns the blocks of the launch; if the result is large, each thread copies several units.
  unsigned blocks() const {
    constexpr uint64_t kMostBlocks = 1024;
    return static_cast<unsigned>(std::clamp<uint64_t>((units_ + kGatherThreads - 1) / kGatherThreads, 1, kMostBlocks));
  }
  // Returns the kernel's parameters. Call it after the last dimension.
  std::array<void*, 6> parameters() {
    uint64_t together = from_ | to_ | pieces_bytes_ | kMostUnit;
    for (unsigned i = 0; i < rank_; ++i) together |= dimensions_[i].stride;
    const uint64_t unit = together & (~together + 1);  // the largest power of two that divides all
    dimensions_[rank_] = {pieces_bytes_ / unit, unit};
    rank_with_units_ = rank_ + 1;
    unit_ = static_cast<unsigned>(unit);
    units_ = bytes() / unit;
    return {&dimensions_, &rank_with_units_, &unit_, &units_, &from_, &to_};
  }

 private:
  static constexpr uint64_t kMostUnit = 16;
  struct Dimension {
    uint64_t size, stride;
  };
  Dimension dimensions_[kMostGatherDimensions] = {};
  unsigned rank_ = 0, rank_with_units_ = 0, unit_ = 0;
  uint64_t from_, to_, pieces_bytes_, pieces_ = 1, units_ = 0;
  static_assert(sizeof dimensions_ == 128, "as in gather.ptx");
};

}  // namespace msda::record
