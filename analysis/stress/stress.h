// How often a test fails: runs until the probability is known well enough, and what fails in them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analysis/stress/proportion.h"
#include "analysis/stress/simulate.h"

namespace msda::analysis::stress {

struct Effort {
  int64_t first = 0;  // number of the first run
  int64_t most_runs = 0;
  int64_t least_runs = 0;  // in all, those before `first` counted
  double width = 0.015;    // of the interval for the probability that the test fails
  double confidence = 0.95;
  int threads = 0;                                    // as in msda_options
  std::function<bool()> stop;                         // asked between runs
  std::function<void(const struct Tally&)> progress;  // after each batch of runs
};

// Counts of runs.
struct Tally {
  int64_t runs = 0, failures = 0, elements = 0;        // elements out of tolerance
  std::map<std::string, int64_t> by_cause, by_tensor;  // runs with such an element
  // Runs that would fail at each of the given atols, with the test's rtol, and at each rtol with its atol.
  std::vector<int64_t> by_atol, by_rtol;
  // The numbers of the runs that fail, and of those with such an element, in ascending order; of runs whose number is
  // below kMostListed.
  static constexpr int64_t kMostListed = 1 << 20;
  std::vector<int64_t> failing;
  std::map<std::string, std::vector<int64_t>> failing_by_cause;
  std::vector<double> needed_atol;  // of the slices that need more than Plan::look.atol; the largest only
  struct Example {
    int64_t run = 0;
    Miss miss;
    Index index;
  };
  std::vector<Example> examples;  // of the first failing runs
};

// Runs the numbers from `effort.first` on. The result depends on the plan and on how many runs there are, on nothing
// else. Adds to `tally`.
void stress(const Plan& plan, const Effort& effort, const std::vector<double>& atols, const std::vector<double>& rtols,
            Tally& tally);

}  // namespace msda::analysis::stress
