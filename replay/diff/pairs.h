// Which invocation of one capture is compared with which of another.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "replay/diff/differences.h"

namespace msda::replay {

struct Pairs {
  std::vector<std::pair<int64_t, int64_t>> pairs;  // ascending by A's number
  std::vector<int64_t> only_a, only_b;             // without a partner
  std::vector<Difference> notes;                   // about other orders of calls
};

// Pairs the n-th call with the n-th if one thread made all calls. Calls of several threads are recorded in another
// order in each run: each is then paired with the first one of equal inputs and outputs; else of equal inputs; else of
// the same kernel, types and shapes; else with the next one left.
Pairs pair_invocations(const Operand& a, const Operand& b);

}  // namespace msda::replay
