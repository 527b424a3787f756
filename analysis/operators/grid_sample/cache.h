// The contributions of a call's batches, each found at the first request.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "analysis/operators/grid_sample/samples.h"

namespace msda::analysis {

// Forgets the least recently used ones. Thread-safe.
class GridSampleCache final : public Cache {
 public:
  explicit GridSampleCache(const GridSampleCall& call) : call_(call) {}

  std::shared_ptr<const GridContributions> get(int64_t n, const Precision& precision, const Narrowing* narrowing);

 private:
  using Key = std::array<int64_t, 3>;
  struct Slot {
    std::once_flag found;
    std::shared_ptr<const GridContributions> contributions;
  };
  std::shared_ptr<Slot> slot(const Key& key);

  const GridSampleCall& call_;
  std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<Slot>>> slots_;  // the most recently used is last
};

}  // namespace msda::analysis
