// Groups the rows of scatter_add's source by buckets of rows of the sum. An entry is a row of the source: its number,
// and that of its row of the sum within the bucket. A small source is looked through by the block of each bucket; of a
// larger one each block first deals a segment out to the buckets.
#pragma once

#include "kernels/cuda/scatter/buckets.h"
#include "kernels/cuda/scatter/key_counts.cuh"
#include "kernels/scatter_sum.h"

namespace msda::kernels::cuda {

using BucketCounts = KeyCounts<kBucketThreads>;

struct Entry {
  uint32_t row, j;  // of the bucket, and of the source
  static constexpr int kBits = 18;
  static_assert(kMostDealt <= int64_t{1} << kBits && kMostRowsOfBucket <= int64_t{1} << (32 - kBits));
  __device__ uint32_t packed() const { return row << kBits | j; }
  __device__ static Entry of(uint32_t packed) { return {packed >> kBits, packed & ((1u << kBits) - 1)}; }
};

// What segments and buckets share, in global memory.
struct Dealt {
  uint32_t* entries;  // packed, by segment, there by bucket; kSegment places for each segment
  uint32_t* pieces;   // [bucket, segment]: where in the segment its entries begin, in the upper 16 bits, and how many
};

// Returns which of a block's items a thread takes in step k of `steps`, so that each warp takes a contiguous part.
__device__ inline uint32_t item_of_step(uint32_t k, uint32_t steps) {
  return (threadIdx.x / kWarp * steps + k) * kWarp + threadIdx.x % kWarp;
}

// Which numbers of an index name a row of the sum, as checked_row() finds, in the 32 bits that buckets' rows have.
class NamedRows {
 public:
  __device__ explicit NamedRows(const ScatterSizes& s)
      : count_(static_cast<uint32_t>(s.named)),
        left_out_(s.padding >= 0 && s.padding < s.named ? static_cast<uint32_t>(s.padding) : ~0u) {}
  __device__ bool has(uint32_t number) const { return number < count_ && number != left_out_; }

 private:
  uint32_t count_, left_out_;
};

// Calls use(k, number of the index) for a thread's items of the source, from item `first` on; ~0u names no row. The
// index has one dimension, and all of it is read at the same time.
template <int kEach, class Int, class Use>
__device__ inline void read_index_of(const ScatterSizes& s, const msda_tensor& index, uint32_t first, uint32_t steps,
                                     Use use) {
  const uint32_t mine = first + item_of_step(0, steps), n = static_cast<uint32_t>(s.n);
  const auto* at = static_cast<const Int*>(index.data) + mine * index.stride[0];
  Int read[kEach];
#pragma unroll
  for (uint32_t k = 0; k < kEach; ++k, at += kWarp * index.stride[0]) {
    if (k >= steps) break;
    read[k] = mine + k * kWarp < n ? *at : Int{-1};
  }
#pragma unroll
  for (uint32_t k = 0; k < kEach; ++k) {
    if (k >= steps) break;
    const auto number = static_cast<uint32_t>(read[k]);
    use(k, sizeof(Int) == 4 || number == static_cast<uint64_t>(read[k]) ? number : ~0u);
  }
}
template <int kEach, class Use>
__device__ inline void read_index(const ScatterSizes& s, const msda_tensor& index, uint32_t first, uint32_t steps,
                                  Use use) {
  if (index.dtype == MSDA_INT32) {
    read_index_of<kEach, int32_t>(s, index, first, steps, use);
  } else {
    read_index_of<kEach, int64_t>(s, index, first, steps, use);
  }
}

// Deals a segment out, by a block. Clears `counters`: those of ScatterQueue, and how many entries are in lists beyond
// shared memory.
inline __global__ void __launch_bounds__(kBucketThreads)
    scatter_deal_kernel(const __grid_constant__ ScatterSizes s, const __grid_constant__ msda_tensor index,
                        Buckets buckets, Dealt dealt, uint32_t* counters) {
  __shared__ uint32_t sums[kWarp + 1];
  if (blockIdx.x == 0 && threadIdx.x < 3) counters[threadIdx.x] = 0;
  const auto first = static_cast<uint32_t>(blockIdx.x * kSegment);
  int32_t row[kDealtEach];
  if (!s.by_elements) {
    read_index<kDealtEach>(s, index, first, kDealtEach,
                           [&](uint32_t k, int32_t number) { row[k] = static_cast<int32_t>(checked_row(s, number)); });
  } else {
#pragma unroll
    for (uint32_t k = 0; k < kDealtEach; ++k) {
      const uint32_t j = first + item_of_step(k, kDealtEach);
      row[k] = j < s.n ? static_cast<int32_t>(row_of(s, index, j)) : -1;
    }
  }
  uint32_t entry[kDealtEach];
  int32_t bucket[kDealtEach];
#pragma unroll
  for (uint32_t k = 0; k < kDealtEach; ++k) {
    const Division::Result place = buckets.by.divide(static_cast<uint32_t>(max(row[k], 0)));
    bucket[k] = row[k] < 0 ? -1 : static_cast<int32_t>(place.rest);
    entry[k] = Entry{place.quotient, first + item_of_step(k, kDealtEach)}.packed();
  }
  BucketCounts counts(dynamic_shared<uint32_t>(), buckets.count);
  const auto walk = [&](auto each) {
#pragma unroll
    for (int k = 0; k < kDealtEach; ++k) each(bucket[k], entry[k]);
  };
  counts.group(sums, walk, [&](uint32_t at, uint32_t packed) { dealt.entries[first + at] = packed; });
  for (uint32_t i = threadIdx.x; i < buckets.count; i += kBucketThreads) {
    const uint32_t begin = counts.begin()[i], number = counts.begin()[i + 1] - begin;
    dealt.pieces[i * buckets.segments + blockIdx.x] = begin << 16 | number;
  }
}

// The entries of a bucket in the segments' pieces.
class DealtEntries {
 public:
  // In shared memory.
  struct Pieces {
    uint32_t before[kMostSegments], from[kMostSegments];  // entries of earlier segments; where number 0 would lie
    uint32_t sums[kWarp + 1];
  };
  // All threads must construct it, and then meet at a barrier.
  __device__ DealtEntries(const Buckets& buckets, const Dealt& dealt, Pieces& pieces)
      : entries_(dealt.entries), pieces_(pieces), segments_(buckets.segments) {
    const uint32_t segment = threadIdx.x;
    const bool is_one = segment < segments_;
    const uint32_t piece = is_one ? dealt.pieces[blockIdx.x * segments_ + segment] : 0,
                   before = sum_before(piece & 0xffffu, pieces.sums, count_);
    if (!is_one) return;
    pieces.before[segment] = before;
    pieces.from[segment] = segment * static_cast<uint32_t>(kSegment) + (piece >> 16) - before;
  }

  __device__ uint32_t count() const { return count_; }

  // Calls each(row of the bucket, row of the source) as KeyCounts asks.
  template <class Each>
  __device__ void walk(Each each) const {
    constexpr uint32_t kAtOnce = 8;
    const uint32_t steps = (count_ + kBucketThreads - 1) / kBucketThreads;
    uint32_t segment = segment_of(item_of_step(0, steps));
    for (uint32_t first = 0; first < steps; first += kAtOnce) {
      uint32_t packed[kAtOnce];
#pragma unroll
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        const uint32_t e = item_of_step(first + k, steps);
        const bool is_one = first + k < steps && e < count_;
        while (is_one && segment + 1 < segments_ && pieces_.before[segment + 1] <= e) ++segment;
        packed[k] = is_one ? entries_[pieces_.from[segment] + e] : ~0u;
      }
#pragma unroll
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        if (first + k >= steps) break;
        const Entry entry = Entry::of(packed[k]);
        each(packed[k] == ~0u ? -1 : static_cast<int32_t>(entry.row), entry.j);
      }
    }
  }

 private:
  __device__ uint32_t segment_of(uint32_t e) const {
    uint32_t segment = 0;
    for (uint32_t step = kMostSegments / 2; step > 0; step /= 2) {
      if (segment + step < segments_ && pieces_.before[segment + step] <= e) segment += step;
    }
    return segment;
  }

  const uint32_t* entries_;
  const Pieces& pieces_;
  uint32_t segments_, count_ = 0;
};

// The entries that this block finds in the whole index, which has one dimension. A warp looks through a contiguous part
// and keeps what it finds, in order: usually so little that the rest is done in one step.
class FoundEntries {
 public:
  // Returns the places in shared memory with which no entry of `n` is lost.
  MSDA_HOST_DEVICE static int64_t places(int64_t n) { return steps_of(n) * kBucketThreads; }

  // `memory`: places(n) numbers.
  __device__ FoundEntries(const ScatterSizes& s, const msda_tensor& index, const Buckets& buckets, uint32_t* memory) {
    const auto steps = static_cast<uint32_t>(steps_of(s.n));
    const unsigned lane = threadIdx.x % kWarp, earlier_lanes = (1u << lane) - 1;
    found_ = memory + threadIdx.x / kWarp * steps * kWarp;
    read_index<kMostFoundEach>(s, index, 0, steps,
                               [&](uint32_t k, uint32_t number) { found_[k * kWarp + lane] = number; });
    // A loop over registers would be unrolled whole: its instructions would take longer to fetch than to execute.
    const NamedRows rows(s);
    constexpr uint32_t kAtOnce = 4;
    for (uint32_t first = 0; first < steps; first += kAtOnce) {
      bool is_one[kAtOnce];
      Entry entry[kAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t k = first + i;
        const uint32_t number = k < steps ? found_[k * kWarp + lane] : ~0u;
        const Division::Result place = buckets.by.divide(number);
        is_one[i] = rows.has(number) && place.rest == blockIdx.x;
        entry[i] = {place.quotient, item_of_step(k, steps)};
      }
      __syncwarp();  // the places of these steps are read, and may be overwritten
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const unsigned ones = __ballot_sync(~0u, is_one[i]);
        if (is_one[i]) found_[count_ + __popc(ones & earlier_lanes)] = entry[i].packed();
        count_ += __popc(ones);
      }
    }
    __syncwarp();
  }

  template <class Each>
  __device__ void walk(Each each) const {
    for (uint32_t first = 0; first < count_; first += kWarp) {
      const uint32_t mine = first + threadIdx.x % kWarp;
      const Entry entry = Entry::of(mine < count_ ? found_[mine] : 0);
      each(mine < count_ ? static_cast<int32_t>(entry.row) : -1, entry.j);
    }
  }

 private:
  MSDA_HOST_DEVICE static int64_t steps_of(int64_t n) { return (n + kBucketThreads - 1) / kBucketThreads; }

  uint32_t *found_, count_ = 0;  // by this warp
};

}  // namespace msda::kernels::cuda
