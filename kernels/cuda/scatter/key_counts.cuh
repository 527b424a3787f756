// Puts the items of a block of threads in the order of their keys, those of equal keys in their own order. Each warp
// takes a contiguous part of the items and counts its keys, whose sums over the warps before are where its items go. No
// order depends on which thread is first, and one key of all items takes no longer than many keys.
#pragma once

#include "kernels/cuda/common/prefix_sums.cuh"
#include "kernels/sample.h"

namespace msda::kernels::cuda {

// In shared memory: begin() of each key and of the end, and how many each warp's part has of each key.
template <int kThreads>
class KeyCounts {
 public:
  MSDA_HOST_DEVICE static constexpr int64_t bytes_of(int64_t keys) {
    return ((kWarps + 1) * keys + 1) * int64_t{sizeof(uint32_t)};
  }
  __device__ KeyCounts(uint32_t* memory, uint32_t keys)
      : begin_(memory), of_warps_(memory + keys + 1), of_mine_(of_warps_ + threadIdx.x / kWarp * keys), keys_(keys) {}

  // Calls place(position, item) for each item. walk(each) must call each(key, item) in all lanes of each warp, for 32
  // items of its part at a time and in order; a negative key means no item. All threads must call it. `sums` as
  // sum_before takes them.
  template <class Walk, class Place>
  __device__ void group(uint32_t* sums, Walk walk, Place place) {
    for (uint32_t i = threadIdx.x % kWarp; i < keys_; i += kWarp) of_mine_[i] = 0;
    __syncwarp();
    walk([&](int32_t key, uint32_t) { count(key); });
    __syncthreads();
    sum_up(sums);
    __syncthreads();
    walk([&](int32_t key, uint32_t item) {
      if (!__any_sync(~0u, key >= 0)) return;
      const unsigned alike = __match_any_sync(~0u, key), earlier = alike & ((1u << threadIdx.x % kWarp) - 1);
      uint32_t at = 0;
      if (key >= 0) {
        at = of_mine_[key] + __popc(earlier);
        place(at, item);
      }
      __syncwarp();
      if (key >= 0 && earlier == 0) of_mine_[key] = at + __popc(alike);
      __syncwarp();
    });
    __syncthreads();
  }

  __device__ const uint32_t* begin() const { return begin_; }

 private:
  static constexpr uint32_t kWarps = kThreads / kWarp;

  __device__ void count(int32_t key) {
    if (__any_sync(~0u, key != __shfl_sync(~0u, key, 0))) {
      if (key >= 0) atomicAdd(&of_mine_[key], 1u);
    } else if (key >= 0 && threadIdx.x % kWarp == 0) {
      of_mine_[key] += kWarp;  // additions to one place would take turns
    }
    __syncwarp();
  }

  // Puts into each warp's place of a key where its first item of the key goes.
  __device__ void sum_up(uint32_t* sums) {
    uint32_t all = 0;
    for (uint32_t first = 0; first < keys_; first += kThreads) {
      const uint32_t key = first + threadIdx.x;
      uint32_t of_warp[kWarps], of_key = 0, of_all;
#pragma unroll
      for (uint32_t warp = 0; warp < kWarps; ++warp) {
        of_warp[warp] = key < keys_ ? of_warps_[warp * keys_ + key] : 0;
        of_key += of_warp[warp];
      }
      uint32_t next = all + sum_before(of_key, sums, of_all);
      if (key < keys_) begin_[key] = next;
#pragma unroll
      for (uint32_t warp = 0; warp < kWarps; ++warp) {
        if (key < keys_) of_warps_[warp * keys_ + key] = next;
        next += of_warp[warp];
      }
      all += of_all;
    }
    if (threadIdx.x == 0) begin_[keys_] = all;
  }

  uint32_t *begin_, *of_warps_, *of_mine_;
  uint32_t keys_;
};

}  // namespace msda::kernels::cuda
