// Ranks each sample of a tile, the samples that a block of threads reads together, among those of its cell. No thread
// waits for its turn, and one cell with all samples takes no longer than many cells with a few: the samples of one warp
// find each other by a warp vote, and the samples of a warp in one cell are one link of a chain.
#pragma once

#include "kernels/cuda/msda/samples.cuh"

namespace msda::kernels::cuda {

// In shared memory. Sample k * kThreads + threadIdx.x of a tile is sample k of a thread.
template <int kThreads, int kEach>
class TileRanks {
 public:
  static constexpr uint32_t kSamples = kThreads * kEach;

  // All threads must call it before the first tile, followed by a barrier.
  __device__ void clear() {
    for (uint32_t i = threadIdx.x; i < kChains; i += kThreads) last_of_chain_[i] = ~0u;
  }

  // Finds for each sample how many of its cell precede it in the tile, and how many are in the whole tile. A negative
  // cell means no sample. All threads must call it; a barrier must lie between two calls, and `tile` must differ each
  // time.
  __device__ void find(uint32_t tile, const int32_t (&cell)[kEach], uint32_t (&rank)[kEach],
                       uint32_t (&number)[kEach]) {
    const unsigned lane = threadIdx.x % kWarp;
    unsigned alike[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      alike[k] = __match_any_sync(~0u, cell[k]);
      if (cell[k] < 0 || !is_first(alike[k], lane)) continue;
      const uint32_t here = k * kThreads + threadIdx.x;
      const uint32_t before = atomicExch(&last_of_chain_[cell[k] % kChains], tile << 16 | here);
      links_[here] = {static_cast<uint32_t>(cell[k]),
                      static_cast<uint16_t>(before >> 16 == (tile & 0xffffu) ? before & 0xffffu : kNone),
                      static_cast<uint16_t>(__popc(alike[k]))};
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      uint32_t earlier = 0, all = 0;
      if (cell[k] >= 0 && is_first(alike[k], lane)) {
        const uint32_t here = k * kThreads + threadIdx.x;
        uint32_t at = last_of_chain_[cell[k] % kChains] & 0xffffu;
        while (at != kNone) {
          const Link link = links_[at];
          if (link.cell == static_cast<uint32_t>(cell[k])) {
            all += link.number;
            if (at < here) earlier += link.number;
          }
          at = link.before;
        }
      }
      const int first = __ffs(static_cast<int>(alike[k])) - 1;
      rank[k] = __shfl_sync(~0u, earlier, first) + __popc(alike[k] & ((1u << lane) - 1));
      number[k] = __shfl_sync(~0u, all, first);
    }
  }

 private:
  static constexpr uint32_t kChains = 4096, kNone = 0xffff;
  static_assert(kSamples < kNone);
  struct alignas(8) Link {
    uint32_t cell;
    uint16_t before, number;  // the link before, and how many samples
  };
  __device__ static bool is_first(unsigned alike, unsigned lane) { return (alike & ((1u << lane) - 1)) == 0; }

  uint32_t
      last_of_chain_[kChains];  // of a cell and all others with the same remainder; the upper 16 bits hold the tile
  Link links_[kSamples];
};

}  // namespace msda::kernels::cuda
