// What would make a test sound: which samples it has to leave out, from which tolerance on the rest passes, and which
// faults it then still finds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/stress/stress.h"

namespace msda::analysis::stress {

// Returns the smallest whole number of Mask::units that hides every sample of the call which rounding may carry over a
// cell boundary in either arithmetic: from the bounds on their coordinates.
double units_needed(const Call& call, const Arithmetic& observed, const Arithmetic& expected);

// Returns the tolerance that all but `share` of slices keep, from what some slices needed: the tail beyond their upper
// fiftieth is taken for a generalized Pareto distribution. `needed`: of the slices that needed more than `least`, at
// least the fiftieth that needed most; `slices`: how many there were.
double tolerance_of_all_but(double share, std::vector<double> needed, int64_t slices, double least);

// A fault of a kernel, planted into elements of a call.
struct Fault {
  std::string text;  // follows "as if"
  std::string tensor;
  int64_t tried = 0, found = 0;  // elements that it changes; those that the test then finds out of tolerance
};
inline constexpr char kZeroThroughout[] = "it were zero throughout";

// Returns the operator's mistakes (Hypotheses::mistakes) under the recorded conventions, and those of whole tensors:
// zeros, a tenth too large, the other sign. `most`: elements of each gradient in which they are tried.
std::vector<Fault> plant_faults(const Call& call, const Tolerance& tolerance, const Mask& mask, int64_t most);

}  // namespace msda::analysis::stress
