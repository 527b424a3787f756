// The whole analysis of one recorded call: from its sides to comparisons, findings and a verdict.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/causes/finding.h"
#include "analysis/judge/bias.h"
#include "analysis/judge/groups.h"
#include "analysis/model/material.h"
#include "analysis/numbers/compare.h"

namespace msda::analysis {

struct Settings {
  // A test's tolerance. Without one, an element is out of tolerance if rounding does not explain it; where it jumps or
  // has another subgradient, if it misses the customary tolerance of the operator's tests (customary_tolerance), too.
  std::optional<Tolerance> tolerance;
  int threads = 0;
  bool customary = false;  // without a tolerance, nothing within the customary one is out of tolerance
};

struct NamedComparison {
  std::string observed, expected;
  Gradient gradient;
  Comparison comparison;
  Index worst_index;
};

struct Verdict {
  AtFault at_fault = AtFault::kNone;
  std::map<Cause, int64_t> causes;    // elements out of tolerance, by cause; advice not counted
  std::string summary;                // some sentences, what weighs most first
  bool advice = false;                // nothing is out of tolerance, but a test under other conventions would fail
  int64_t explained_by_rounding = 0;  // elements beyond the customary tolerance, but within the bound on rounding
  // How many elements beyond the tolerance (the customary one if nobody set one) only arithmetic in the tensors' 16-bit
  // type explains: they exceed the bounds of float32.
  int64_t explained_by_16_bits = 0;
  int64_t within_customary = 0;  // of those out of tolerance: mistakes within the customary tolerance
  std::string biases;            // sentences on the Report's
  bool tolerance_given = true;   // else nobody set the one that is at fault, and so nobody is
};

struct Report {
  std::vector<NamedComparison> comparisons;
  std::vector<JudgedElements> judged;  // against the reference, against float64, then advice
  std::vector<Finding> findings;       // in the same order: of all those elements, or the most instructive of each set
  std::vector<Group> groups;  // of all those elements: what they share; what the verdict rests on first, advice last
  // Changes of the recorded conventions under which float64 gives what is out of tolerance: "padding border in place of
  // zeros". Tried where a share of the gradients of samples is wrong, or the reference is wrong in the same way.
  std::vector<std::string> fits;
  std::vector<Bias> biases;  // of the recorded side, in gradients in which it made no mistakes
  Verdict verdict;
};

// Returns how many elements of a set that is judged alike become findings: half of them the farthest from their
// tolerance, half spread evenly over the rest. Rounding and advice need fewer examples than mistakes.
constexpr int64_t most_described(const JudgedElements& set) {
  return set.advisory || is_rounding(set.cause) ? 1000 : 4000;
}
// Up to this many elements of a gradient and comparison are findings of their own; if there are more, neighbours with
// the same cause and fault form runs.
inline constexpr int64_t kMostSingle = 256;

Report analyze(const Material& material, const Settings& settings);

// Returns the verdict on several calls together, with one summary.
Verdict combine(const std::vector<Verdict>& verdicts);

}  // namespace msda::analysis
