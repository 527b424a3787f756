// Which of the ways to compute an element explain a side's value of it, by where its sample landed and how it rounds.
#pragma once

#include <vector>

#include "analysis/model/side.h"

namespace msda::analysis {

// One explanation of a side's value: the sample landed in these cells, and rounding explains the difference.
struct Match {
  Place place;
  Element element;
  double residual = 0;   // |side's value - element.value|
  double bound = 0;      // of rounding, including the final rounding into the tensor's type
  double of_choice = 0;  // the same, beside which of the samples on ties were added
};

struct Explanation {
  double value = 0;
  std::vector<Match> candidates;  // all landings, the exact one first
  std::vector<size_t> matches;    // those whose residual is within their bound
  bool reduced = false;           // by arithmetic with a narrowing, all of the above
  bool explained() const { return !matches.empty(); }
  const Match& exact() const { return candidates.front(); }
};

// Explains the side's value of the element, or another `value` in its place.
Explanation explain(const Call& call, const Side& side, const ElementId& id, Cache& cache);
Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, Cache& cache);
// Explains the value by arithmetic with a narrowing.
Explanation explain_reduced(const Call& call, const Side& side, const ElementId& id, const Narrowing& narrowing,
                            Cache& cache);
// Explains the value by the side's arithmetic or, if that fails or fits much worse, with the side's narrowing.
Explanation explain_best(const Call& call, const Side& side, const ElementId& id, Cache& cache);

// Returns the error of rounding x into the type of the side's tensor, in addition to the arithmetic's error.
double storage_error(const Side& side, Gradient gradient, double x);

}  // namespace msda::analysis
