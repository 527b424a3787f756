// Which invocation of one capture is compared with which of another.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "replay/diff/differences.h"

namespace msda::replay {

struct Pairs {
  std::vector<std::pair<int64_t, int64_t>> pairs;  // by the first one's number
  std::vector<int64_t> only_a, only_b;             // without a partner
  std::vector<Difference> notes;                   // other orders of calls
};

// The n-th with the n-th, if one thread made all calls. Calls of several threads are recorded in another order in each
// run: each then has the first one of equal inputs and outputs as its partner; else of equal inputs; else of the same
// kernel, types and shapes; else the next that is left.
Pairs pair_invocations(const Operand& a, const Operand& b);

}  // namespace msda::replay
