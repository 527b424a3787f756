// How the rows of scatter_add's sum are dealt out to blocks of threads, so that few launches group the source's rows
// and sum them up (buckets.cuh).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/common/division.h"

namespace msda::kernels::cuda {

inline constexpr int kBucketThreads = 512, kDealtEach = 4, kMostFoundEach = 16;
inline constexpr int64_t kSegment = kBucketThreads * kDealtEach;  // rows of the source that a block deals out
inline constexpr int64_t kMostSegments = 128, kMostBuckets = 1023, kMostRowsOfBucket = 512;
inline constexpr int64_t kMostDealt = kMostSegments * kSegment;         // rows of the source
inline constexpr int64_t kMostFound = kBucketThreads * kMostFoundEach;  // that each block looks through itself
inline constexpr int64_t kLeastOfBucket = 8;                            // on average

// Row r of the sum is number r / count of bucket r % count: neighbours, which often get many addends together, lie in
// different buckets; and as `count` is odd, so do rows a power of two apart.
struct Buckets {
  uint32_t count = 0, rows = 0;  // buckets, and rows of each, at most
  uint32_t segments = 0;         // of the source; 0: each block looks through the whole index
  Division by;

  // Divides the sum of `n` rows of the source. `finds`: whether it costs little to look at one.
  Buckets(int64_t n, int64_t rows_of_sum, int processors, bool finds) {
    if (n == 0 || n > kMostDealt || rows_of_sum > kMostBuckets * kMostRowsOfBucket) return;
    segments = finds && n <= kMostFound ? 0 : static_cast<uint32_t>((n + kSegment - 1) / kSegment);
    // If each block looks through the index, takes as many as multiprocessors; else twice as many, of which half can
    // wait.
    const int64_t fill = std::min((segments == 0 ? 1 : 2) * int64_t{processors} - 1,
                                  (n + kLeastOfBucket - 1) / kLeastOfBucket),
                  need = (rows_of_sum + kMostRowsOfBucket - 1) / kMostRowsOfBucket,
                  used = std::min({std::max(fill, need) | 1, kMostBuckets, rows_of_sum});
    count = static_cast<uint32_t>(used);
    rows = static_cast<uint32_t>((rows_of_sum + used - 1) / used);
    by = Division(used);
  }
  // Returns whether the call is of a size for buckets.
  bool fit() const { return count > 0; }
};

}  // namespace msda::kernels::cuda
