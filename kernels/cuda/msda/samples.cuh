// What the kernels of deformable attention share: eight threads work on one sample or pixel, each on four adjacent
// channels of 32, which is how the fixed tree over channels (sample.h, kLanes) falls onto a warp.
#pragma once

#include <type_traits>

#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/msda/problem.h"
#include "kernels/sample.h"

namespace msda::kernels::cuda {

inline constexpr int kGroup = 8;  // threads to a group, each with four of 32 channels

__device__ inline const Level& level_of(const Levels& levels, int l) {
  return levels.far != nullptr ? levels.far[l] : levels.near[l];
}

// Returns x and y.
template <class Stored>
__device__ inline Two<Stored> location_of(const Problem<Stored>& p, int64_t sample) {
  const Stored* at = p.sampling_locations + 2 * sample;
  if (is_aligned_for_two(p.sampling_locations)) return *reinterpret_cast<const Two<Stored>*>(at);
  return {{at[0], at[1]}};
}
// `Conventions`: a Problem, or Fixed.
template <class Real, class Conventions, class Stored>
__device__ inline Spot<Real> locate_sample(const Conventions& call, const Level& level, const Two<Stored>& location) {
  return locate_at(call, level, static_cast<Real>(widened(location.at[0])), static_cast<Real>(widened(location.at[1])));
}
template <class Real, class Stored>
__device__ inline Spot<Real> locate_sample(const Problem<Stored>& p, const Level& level, int64_t sample) {
  return locate_sample<Real>(p, level, location_of(p, sample));
}

// A call's conventions as compile-time constants, so that the compiler omits the instructions of the others.
template <msda_dialect kDialect, msda_padding kPadding>
struct Fixed {
  static constexpr msda_dialect dialect = kDialect;
  static constexpr msda_padding padding = kPadding;
  bool align_corners;
};
// Calls use(the Fixed of a call).
template <class Stored, class Use>
__device__ inline void with_fixed(const Problem<Stored>& p, Use&& use) {
  const bool border = p.padding == MSDA_PADDING_BORDER;
  if (p.dialect == MSDA_DEFORMABLE_DETR) return use(Fixed<MSDA_DEFORMABLE_DETR, MSDA_PADDING_ZEROS>{false});
  if (p.dialect == MSDA_MSDA_TRITON) {
    if (border) return use(Fixed<MSDA_MSDA_TRITON, MSDA_PADDING_BORDER>{p.align_corners});
    return use(Fixed<MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS>{p.align_corners});
  }
  if (border) return use(Fixed<MSDA_GRID_SAMPLE, MSDA_PADDING_BORDER>{p.align_corners});
  return use(Fixed<MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS>{p.align_corners});
}

// Returns Axis::slope along a side of a level, if the coordinate is not clipped.
template <class Real, class Stored>
__device__ inline Real slope_of(const Problem<Stored>& p, int32_t size) {
  return static_cast<Real>(p.align_corners ? size - 1 : size);
}

// The pixels of a cell (corner_pixels), stored as the first one, the steps to the others, and which exist.
struct Corners {
  uint32_t first, flags;  // a bit for each corner that there is, and the two below
  static constexpr uint32_t kAllDifferent = 63, kStepsDown = 16, kStepsRight = 32;
  static constexpr int kFlagBits = 6;
  // Returns the corners of the cell in this row and column, counted from the cell before the first pixel (cell_of).
  template <class Conventions>
  __device__ static Corners of_cell(const Conventions& call, const Level& level, uint32_t row, uint32_t column) {
    const auto height = static_cast<uint32_t>(level.height), width = static_cast<uint32_t>(level.width);
    uint32_t rows = (row > 0 ? 1u : 0u) | (row < height ? 2u : 0u),
             columns = (column > 0 ? 1u : 0u) | (column < width ? 2u : 0u);
    const uint32_t steps = (rows == 3 ? kStepsDown : 0u) | (columns == 3 ? kStepsRight : 0u);
    if (corners_clamp(call.dialect, call.padding)) rows = columns = 3;
    return {(max(row, 1u) - 1) * width + max(column, 1u) - 1,
            ((rows & 1) != 0 ? columns : 0u) | ((rows & 2) != 0 ? columns << 2 : 0u) | steps};
  }
  __device__ bool has(int c) const { return (flags >> c & 1) != 0; }
  // Returns the pixel of corner c, if has(c).
  __device__ uint32_t pixel(int c, uint32_t width) const {
    return first + (c / 2 == 1 && (flags & kStepsDown) != 0 ? width : 0) +
           (c % 2 == 1 && (flags & kStepsRight) != 0 ? 1 : 0);
  }
};

// Returns the address of a row with this number, with rows `step` bytes apart: one instruction, if the compiler is kept
// from widening `step` first.
template <class T>
__device__ inline T* row_at(T* first, uint32_t number, uint32_t step) {
  uint64_t offset = uint64_t{number} * step;
#if defined(__CUDA_ARCH__)
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(offset) : "r"(number), "r"(step));
#endif
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + offset);
}

// Keeps the compiler from recomputing a value at each use if it has a register for it.
template <class T>
__device__ inline T kept(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("" : "+f"(x));
  } else if constexpr (std::is_same_v<T, double>) {
    asm volatile("" : "+d"(x));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("" : "+r"(x));
  } else {
    static_assert(sizeof(T) == 8);
    asm volatile("" : "+l"(x));
  }
#endif
  return x;
}
// Do the same for an address in global, and in shared memory.
template <class T>
__device__ inline T* kept_global(T* address) {
#if defined(__CUDA_ARCH__)
  return static_cast<T*>(__cvta_global_to_generic(kept(__cvta_generic_to_global(address))));
#else
  return address;
#endif
}
template <class T>
__device__ inline T* kept_shared(T* address) {
#if defined(__CUDA_ARCH__)
  return static_cast<T*>(__cvta_shared_to_generic(kept(static_cast<uint32_t>(__cvta_generic_to_shared(address)))));
#else
  return address;
#endif
}

// What one thread's four lanes contribute to the tree over 32 lanes: attention, x, y.
template <class Real>
__device__ inline void sum_up(const ChannelSums<4, Real>& lanes, Real (&to)[3]) {
  to[0] = sum_pairs<4>(lanes.attention);
  to[1] = sum_pairs<4>(lanes.x);
  to[2] = sum_pairs<4>(lanes.y);
}

// Finishes that tree over the threads of a group, for four samples at once: lane j gets the sums of sample j % 4. All
// lanes of the warp must call it.
template <int kSums, class Real>
__device__ inline void sums_over_group(const Real (&four)[4][kSums], Real (&sum)[kSums]) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    Real half[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Real kept = odd ? four[2 * h + 1][k] : four[2 * h][k], given = odd ? four[2 * h][k] : four[2 * h + 1][k];
      half[h] = kept + __shfl_xor_sync(~0u, given, 1);
    }
    const Real kept = upper ? half[1] : half[0], given = upper ? half[0] : half[1];
    sum[k] = kept + __shfl_xor_sync(~0u, given, 2);
    sum[k] = sum[k] + __shfl_xor_sync(~0u, sum[k], 4);
  }
}

}  // namespace msda::kernels::cuda
