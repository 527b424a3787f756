// What the boxes of ROIAlign read, found once for all channels: which bins read each column and each row, with which
// weights, and which boxes may reach each tile of pixels.
#pragma once

#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/roi_axis.h"

namespace msda::kernels::cuda {

inline constexpr int kRoiWide = kWarp;  // a tile's columns
inline constexpr int kRoiTableThreads = 128;
inline constexpr uint32_t kRoiListed = 4;  // weights of a column or row that are kept together
inline constexpr int64_t kBoxesOfWord = 32;
static_assert(kBoxesOfWord == kBoxRun);  // boxes are taken in whole runs

// Boxes are taken in batches, so that the tables stay small. Boxes are counted from the batch's first.
template <class Stored>
struct RoiCall : RoiSizes {
  const Stored* boxes;        // the batch's
  const Stored* grad_output;  // the batch's
  int64_t count;              // boxes of the batch
  int32_t high;               // rows of a tile
  uint32_t tiles_across, tiles_down;
  uint32_t words;  // of 32 boxes

  MSDA_HOST_DEVICE int64_t sides_of_box() const { return int64_t{sides[0]} + sides[1]; }
  MSDA_HOST_DEVICE int64_t weights_of_box() const { return int64_t{bins[0]} * sides[0] + int64_t{bins[1]} * sides[1]; }
  MSDA_HOST_DEVICE int64_t tiles() const { return N * tiles_across * tiles_down; }
};

// Where a tile lies.
struct RoiTile {
  int32_t left, top;
  int64_t image;
  template <class Stored>
  __device__ RoiTile(const RoiCall<Stored>& p, uint32_t number) {
    const uint32_t row = number / p.tiles_across;
    left = static_cast<int32_t>(number % p.tiles_across) * kRoiWide;
    top = static_cast<int32_t>(row % p.tiles_down) * p.high;
    image = row / p.tiles_down;
  }
};

// The bins that read a column or a row.
struct RoiBins {
  uint32_t first, count;
  __device__ static uint32_t packed(int32_t first, int32_t end) {
    return end > first ? static_cast<uint32_t>(first) << 16 | static_cast<uint32_t>(end - first) : 0;
  }
  __device__ explicit RoiBins(uint32_t packed) : first(packed >> 16), count(packed & 0xffff) {}
};

template <class Real>
struct RoiTables {
  uint32_t* bins;  // [boxes, columns and rows]: RoiBins
  Real* weights;   // [boxes, (bins, columns) and (bins, rows)]
  Real*
      listed;  // [boxes, kRoiListed, columns and rows]: of the first of RoiBins, so that a tile can fetch them with it
  uint32_t* reach;  // [tiles, words]: a bit for each box that may reach the tile
};

template <class Real, class Stored>
__device__ inline RoiAxis<Real> roi_axis(const RoiCall<Stored>& p, int64_t box, int axis) {
  const Stored* const edges = p.boxes + box * 5 + 1 + axis;
  return {p, axis, static_cast<Real>(widened(edges[0])), static_cast<Real>(widened(edges[2]))};
}

template <class Real, class Stored>
__device__ inline bool may_reach(const RoiCall<Stored>& p, int64_t box, const RoiTile& tile) {
  if (box >= p.count) return false;
  const auto image = widened(p.boxes[box * 5]);
  if (!(image >= 0) || static_cast<int64_t>(image) != tile.image) return false;
  return roi_axis<Real>(p, box, 0).may_reach(p.bins[0], tile.left, tile.left + kRoiWide - 1) &&
         roi_axis<Real>(p, box, 1).may_reach(p.bins[1], tile.top, tile.top + p.high - 1);
}

// A block for each box; the blocks after them fill `reach`, a warp each word.
template <class Stored, class Real>
__global__ void __launch_bounds__(kRoiTableThreads)
    roi_tables_kernel(const __grid_constant__ RoiCall<Stored> p, RoiTables<Real> tables) {
  const int64_t box = blockIdx.x, sides = p.sides_of_box();
  if (box < p.count) {
    for (int64_t i = threadIdx.x; i < sides; i += kRoiTableThreads) {
      const int axis = i < p.sides[0] ? 0 : 1;
      const auto pixel = static_cast<int32_t>(axis == 0 ? i : i - p.sides[0]);
      const RoiAxis<Real> along = roi_axis<Real>(p, box, axis);
      uint32_t found = 0;
      if (along.may_reach(p.bins[axis], pixel, pixel)) {
        Real* const weights =
            tables.weights + box * p.weights_of_box() + (axis == 0 ? 0 : int64_t{p.bins[0]} * p.sides[0]) + pixel;
        const RoiReaders<Real> readers(along, p.bins[axis], pixel, weights, p.sides[axis]);
        found = RoiBins::packed(readers.first, readers.end);
        Real* const listed = tables.listed + box * kRoiListed * sides + i;
        for (int32_t k = 0; k < static_cast<int32_t>(kRoiListed) && readers.first + k < readers.end; ++k) {
          listed[k * sides] = weights[(readers.first + k) * p.sides[axis]];
        }
      }
      tables.bins[box * sides + i] = found;
    }
    return;
  }
  const int64_t word = (box - p.count) * (kRoiTableThreads / kWarp) + threadIdx.x / kWarp;
  if (word >= p.tiles() * p.words) return;
  const RoiTile tile(p, static_cast<uint32_t>(word / p.words));
  const unsigned boxes =
      __ballot_sync(~0u, may_reach<Real>(p, word % p.words * kBoxesOfWord + threadIdx.x % kWarp, tile));
  if (threadIdx.x % kWarp == 0) tables.reach[word] = boxes;
}

// The boxes that may reach a tile, in their order. All lanes of a warp must call its functions, and get the same.
class RoiBoxes {
 public:
  static constexpr uint32_t kNone = ~0u;
  __device__ RoiBoxes(const uint32_t* reach, uint32_t words) : reach_(reach), words_(words) {}
  __device__ uint32_t next() {
    while (bits_ == 0) {
      while (filled_ == 0) {
        if (end_ >= words_) return kNone;
        const uint32_t mine = end_ + threadIdx.x % kWarp;
        word_ = mine < words_ ? reach_[mine] : 0;
        filled_ = __ballot_sync(~0u, word_ != 0);
        end_ += kWarp;
      }
      const int lane = __ffs(static_cast<int>(filled_)) - 1;
      filled_ &= filled_ - 1;
      bits_ = __shfl_sync(~0u, word_, lane);
      first_ = (end_ - kWarp + static_cast<uint32_t>(lane)) * static_cast<uint32_t>(kBoxesOfWord);
    }
    const uint32_t box = first_ + static_cast<uint32_t>(__ffs(static_cast<int>(bits_))) - 1;
    bits_ &= bits_ - 1;
    return box;
  }

 private:
  const uint32_t* reach_;
  uint32_t words_, end_ = 0;
  uint32_t word_ = 0, filled_ = 0;  // of this lane; lanes whose word has boxes
  uint32_t bits_ = 0, first_ = 0;   // of the word at hand
};

}  // namespace msda::kernels::cuda
