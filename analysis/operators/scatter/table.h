// What each target of a scattering call receives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {

// The sources of each target, in their order.
class ScatterTable {
 public:
  struct Entry {
    int64_t source, first;  // a place, and its element of channel 0
    double weight;
    double error = 0;
    bool is_signed = false;

    double sign() const { return is_signed ? weight : Uncertain{weight, error}.sign(); }
  };
  using Put = std::function<void(int64_t target, const Entry& entry)>;
  // `visit_all` calls its argument for every entry; it is called twice.
  ScatterTable(int64_t targets, const std::function<void(const Put&)>& visit_all);

  std::span<const Entry> entries(int64_t target) const {
    const auto at = static_cast<size_t>(target);
    return {entries_.data() + begin_[at], entries_.data() + begin_[at + 1]};
  }

 private:
  std::vector<Entry> entries_;
  std::vector<int64_t> begin_;
};

// The tables of a call, each made when it is first asked for: all replays and comparisons share them. Thread-safe.
class ScatterTables {
 public:
  // In exact arithmetic; with weight 0 and its error for those sources that rounding alone brings to a target.
  const ScatterTable& exact(const ScatterCall& call, const Precision& coordinates, int way = 0);
  // As our own replays add them, a source once for each of its samples.
  const ScatterTable& computed(const ScatterCall& call);

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, const ScatterTable> exact_;  // by bits and way: a few
  std::optional<const ScatterTable> computed_;
};

// Returns the product of a contribution's factors, in the order of their names, each product rounded to a type.
double product_of(const Contribution& contribution, size_t factors, msda_dtype type);

}  // namespace msda::analysis
