// How often at least one of several tests fails, if all are run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/stress/proportion.h"

namespace msda::analysis::stress {

// The simulated runs of one test.
struct TestRuns {
  int64_t runs = 0;              // numbered from 0 on
  std::vector<int64_t> failing;  // the numbers of those that failed, ascending
};

// A run of the suite is the run of the same number of every test; it fails if one of these does. There are as many as
// the test with the fewest runs has. If the tests draw their inputs independently of each other, runs of the suite are
// independent of each other as well, and Clopper and Pearson's interval holds for them as it does for one test. It is
// as wide as that number of runs allows, however many tests there are: intervals of each test, multiplied, would be
// wider the more tests there are. No tests: no runs.
Proportion any_fails(std::span<const TestRuns> tests, double confidence);

}  // namespace msda::analysis::stress
