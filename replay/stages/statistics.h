// Statistics of a tensor's numbers: extremes, zeros, and numbers that are not finite.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "analysis/causes/finding.h"

namespace msda::replay {

struct Statistics {
  int64_t count = 0, nan = 0, infinite = 0, zero = 0;
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;  // of the finite ones
  double smallest = std::numeric_limits<double>::infinity();  // magnitude of the finite ones that are not 0

  void add(double x) {
    ++count;
    if (std::isnan(x)) {
      ++nan;
    } else if (std::isinf(x)) {
      ++infinite;
    } else {
      lowest = std::min(lowest, x);
      highest = std::max(highest, x);
      if (x == 0) {
        ++zero;
      } else {
        smallest = std::min(smallest, std::abs(x));
      }
    }
  }

  // Returns the facts that differ from `other`, by their names in JSON, except smallest_magnitude, which few summaries
  // have.
  std::vector<std::string> differs_in(const Statistics& reference) const {
    std::vector<std::string> names;
    const auto compare = [&](const char* name, auto mine, auto theirs) {
      if (mine != theirs) names.emplace_back(name);
    };
    compare("count", count, reference.count);
    compare("nan", nan, reference.nan);
    compare("infinite", infinite, reference.infinite);
    compare("zero", zero, reference.zero);
    compare("lowest", lowest, reference.lowest);
    compare("highest", highest, reference.highest);
    return names;
  }

  nlohmann::ordered_json json() const {
    using analysis::number;
    const bool any = lowest <= highest;
    return {{"count", count},
            {"nan", nan},
            {"infinite", infinite},
            {"zero", zero},
            {"lowest", any ? number(lowest) : nullptr},
            {"highest", any ? number(highest) : nullptr},
            {"smallest_magnitude", std::isfinite(smallest) ? number(smallest) : nullptr}};
  }
};

}  // namespace msda::replay
