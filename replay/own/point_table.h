// The points of a sum, sorted by the elements that they may belong to: found once, where conditions say which.
#pragma once

#include <memory>
#include <vector>

#include "replay/own/evaluation.h"

namespace msda::replay {

struct PointTable {
  std::vector<size_t> axes;    // of the tensor that is summed up: a point belongs to their values, its key
  std::vector<int64_t> sizes;  // of these axes
  std::vector<bool> decided;   // which of the sum's conditions hold for all points of a key
  std::vector<int64_t> begin;  // by key
  std::vector<uint32_t> points;

  // Returns the key of an element by its indices.
  size_t key(std::span<const int64_t> at) const;
  int64_t keys() const { return static_cast<int64_t>(begin.size()) - 1; }
};

// Returns nothing where no condition says it: EXPRESSION == INDEX, EXPRESSION <= INDEX and the like of integers, or
// abs(INDEX - EXPRESSION) < NUMBER of reals, of an index of the tensor. `where`: for messages. Throws BadInput.
std::shared_ptr<const PointTable> find_points(const BoundExpressions& bound, const adapters::SumSpec& sum,
                                              const analysis::Precision& precision, const std::string& where);

}  // namespace msda::replay
