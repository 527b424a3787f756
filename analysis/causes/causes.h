// The causes, a file each. A test gets one element out of tolerance and says whether its cause holds, and by what
// evidence. docs/causes.md explains the causes to users.
#pragma once

#include <optional>

#include "analysis/causes/finding.h"
#include "analysis/causes/leftover.h"
#include "analysis/model/call.h"
#include "analysis/model/explain.h"

namespace msda::analysis {

// One element out of tolerance, with what the tests need to know of it.
struct Suspect {
  const Call& call;
  ElementId id;
  const Side& observed;
  const Side& expected;
  bool against_float64;  // `expected` is the float64 replay
  double observed_value, expected_value;
  double float64;                // the element in float64 arithmetic
  std::optional<double> before;  // the output buffer's element as the kernel found it, if recorded
  Explanation of_observed, of_expected;
  bool observed_holds, expected_holds;  // the side is within tolerance of float64
  bool any_holds;  // some result in the recorded precision is: recorded, reference or a replay of a fixed order
  Tolerance tolerance;
  Cache& cache;
  bool wants_reasons = true;           // and evidence, not the cause and the fault alone
  const Leftover* leftover = nullptr;  // whose result `before` was, if known

  bool reduced() const { return of_observed.reduced || of_expected.reduced; }
};

std::optional<Diagnosis> test_non_finite(const Suspect&);
std::optional<Diagnosis> test_uninitialized_output(const Suspect&);
std::optional<Diagnosis> test_cell_boundary(const Suspect&);
std::optional<Diagnosis> test_border_clamp(const Suspect&);
std::optional<Diagnosis> test_stopped_sum(const Suspect&);
std::optional<Diagnosis> test_accumulation_order(const Suspect&);
// Applies if neither a jump alone nor rounding alone separates the sides, though both together would.
std::optional<Diagnosis> test_unwritten_beside_rounding(const Suspect&);
// rounding or, where the condition is bad, ill_conditioned.
std::optional<Diagnosis> test_ill_conditioned(const Suspect&);
std::optional<Diagnosis> test_reduced_precision(const Suspect&);
Diagnosis implementation_error(const Suspect&);

// Returns for an element with the cause uninitialized_output: once in 2^bits another mistake of this size fits the
// buffer as well.
double chance_bits_of_buffer(const Suspect&);

// Returns for an element with a cause that is rounding whether a side's value is out of the bounds of float32.
bool only_16_bits_explain(const Suspect&);

// Returns the first cause that holds.
Diagnosis diagnose(const Suspect&);

// Returns how a side that is rounded has evaluated what has no cells: "divided by 2048, at which ...". Empty of
// coordinates.
std::optional<Evaluation> way_of(const Suspect&, const Side&, const Match&);

// Who is wrong where rounding is the cause: the side that misses float64 while the other meets it; the tolerance, if
// both meet float64 and yet miss each other, or if no result in this precision meets it.
AtFault rounding_fault(const Suspect&);

// What to call the arithmetic of each of the two sides in a sentence that sets them against each other: their dialects;
// "float64" for that replay; the sides' names where the dialects are one.
struct ArithmeticNames {
  std::string observed, expected;
};
ArithmeticNames arithmetic_names(const Suspect&);

// The pair of matches, of the observed and of the expected side, whose landings differ along the fewest axes; of
// those, the one that lies closest to their values.
struct MatchPair {
  const Match* observed;
  const Match* expected;
  int axes;  // along which they differ
  bool same_landing() const { return axes == 0; }
};
std::optional<MatchPair> best_pair(const Suspect&);

}  // namespace msda::analysis
