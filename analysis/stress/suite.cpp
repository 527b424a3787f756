#include "analysis/stress/suite.h"

#include <algorithm>
#include <set>

namespace msda::analysis::stress {

Proportion any_fails(std::span<const TestRuns> tests, double confidence) {
  if (tests.empty()) return proportion(0, 0, confidence);
  const int64_t runs = std::ranges::min_element(tests, {}, &TestRuns::runs)->runs;
  std::set<int64_t> failing;
  for (const TestRuns& test : tests) {
    failing.insert(test.failing.begin(), std::ranges::lower_bound(test.failing, runs));
  }
  return proportion(static_cast<int64_t>(failing.size()), runs, confidence);
}

}  // namespace msda::analysis::stress
