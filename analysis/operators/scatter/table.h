// What each target of a scattering call receives, found once for each precision of coordinates.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {

class ScatterTable {
 public:
  struct Entry {
    int64_t source;
    double weight;
    double error = 0;
    bool is_signed = false;

    double sign() const { return is_signed ? weight : Uncertain{weight, error}.sign(); }
  };
  ScatterTable(const ScatterCall& call, const Precision& coordinates, int way);

  // Returns the sources of a target, with weight 0 and its error for those that rounding alone brings here.
  std::span<const Entry> exact(int64_t target) const { return of(exact_, exact_begin_, target); }
  // Returns the sources as our own replays add them, in the order of the samples. For the exact way alone.
  std::span<const Entry> computed(int64_t target) const { return of(computed_, computed_begin_, target); }

 private:
  static std::span<const Entry> of(const std::vector<Entry>& entries, const std::vector<int64_t>& begin,
                                   int64_t target) {
    const auto at = static_cast<size_t>(target);
    return {entries.data() + begin[at], entries.data() + begin[at + 1]};
  }

  std::vector<Entry> exact_, computed_;
  std::vector<int64_t> exact_begin_, computed_begin_;
};

// Thread-safe.
class ScatterCache final : public Cache {
 public:
  explicit ScatterCache(const ScatterCall& call) : call_(call) {}
  const ScatterTable& get(const Precision& coordinates, int way = 0);

 private:
  const ScatterCall& call_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, const ScatterTable> tables_;  // by bits and way: a few
};

// Returns the product of a contribution's factors, in the order of their names, each product rounded to a type.
double product_of(const Contribution& contribution, size_t factors, msda_dtype type);

}  // namespace msda::analysis
