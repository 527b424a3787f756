// The result of the analysis for one element out of tolerance.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "analysis/causes/cause.h"
#include "analysis/model/call.h"
#include "analysis/numbers/compare.h"

namespace msda::analysis {

// The named facts that decided a cause, in the order in which they are printed: numbers, texts, lists.
using Evidence = nlohmann::ordered_json;

// Returns a floating-point number for evidence: NaN and infinities, which JSON lacks, as the texts "NaN", "Infinity",
// "-Infinity".
Evidence number(double x);

// "12,345"
std::string thousands(int64_t n);

// What a cause's test found.
struct Diagnosis {
  Diagnosis() = default;
  Diagnosis(Cause found, AtFault party) : cause(found), at_fault(party) {}

  Cause cause = Cause::kImplementationError;
  AtFault at_fault = AtFault::kNone;
  Evidence evidence = Evidence::object();
  std::string why;  // one sentence, with the numbers
};

struct Finding : Diagnosis {
  Gradient gradient;
  int64_t flat = 0;
  int64_t count = 1;  // elements from `flat` on, with the same cause and fault
  Index index;
  double observed = 0, expected = 0, float64 = 0;
  std::string against;    // the expected side
  bool advisory = false;  // counts neither for the verdict nor for the exit status
};

}  // namespace msda::analysis
