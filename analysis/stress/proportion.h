// Clopper and Pearson's interval for a probability, of `hits` among `runs` independent trials.
#pragma once

#include <cstdint>

namespace msda::analysis::stress {

// Covers the probability at least as often as `confidence` says. Without runs: [0, 1].
struct Proportion {
  double estimate = 0, low = 0, high = 1;
  int64_t hits = 0, runs = 0;
};
Proportion proportion(int64_t hits, int64_t runs, double confidence);

}  // namespace msda::analysis::stress
