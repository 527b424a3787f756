// Where wrong values of a gradient lie, and what they are beside the right ones: by this an operator knows a mistake.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/model/gradient.h"

namespace msda::analysis {

// Values within this of each other count as one: the last roundings of 16-bit types differ by less.
inline constexpr double kClose = 0.02;

// Where elements lie along one dimension.
struct Extent {
  Dimension dimension;
  int64_t size = 0;  // indices that there are
  int64_t first = 0, last = 0;
  int64_t distinct = 0;  // indices that occur

  bool is_one() const { return distinct == 1; }
  bool is_all() const { return distinct == size; }
  bool is_range() const { return last - first + 1 == distinct; }
};

// What wrong values, or the part of them with some indices in common, are beside the right ones.
struct Pattern {
  enum class Kind { kRatio, kOffset };
  std::vector<std::pair<Dimension, int64_t>> part;  // the indices in common; empty: all elements
  int64_t elements = 0;
  Kind kind = Kind::kRatio;
  double value = 0;  // median of wrong / right, or of wrong - right

  // Returns whether the values are the right ones, multiplied by a ratio other than 1.
  bool is_ratio(double ratio) const {
    const auto is_close = [](double a, double b) { return std::abs(a - b) <= kClose / 2 * std::abs(b); };
    return kind == Kind::kRatio && !is_close(ratio, 1) && is_close(value, ratio);
  }
};

struct WrongValues {
  Gradient gradient;
  std::vector<Extent> extents;    // one for each dimension of the gradient
  std::vector<Pattern> patterns;  // parts whose values are wrong in one way; empty: in many ways

  const Extent& extent(Dimension dimension) const { return *std::ranges::find(extents, dimension, &Extent::dimension); }
  // Returns the index along a dimension that all elements of a pattern have; nothing if they have several.
  std::optional<int64_t> index_of(const Pattern& pattern, Dimension dimension) const {
    for (const auto& [common, index] : pattern.part) {
      if (common == dimension) return index;
    }
    const Extent& all = extent(dimension);
    return all.is_one() ? std::optional(all.first) : std::nullopt;
  }
};

}  // namespace msda::analysis
