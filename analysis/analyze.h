// From the sides of one recorded call to comparisons, findings and a verdict: the whole analysis.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/call.h"
#include "analysis/compare.h"
#include "analysis/finding.h"
#include "analysis/groups.h"
#include "analysis/side.h"

namespace msda::analysis {

// Everything there is for one call. Tensors that a side does not have are left out of its comparisons.
struct Material {
  Call call;
  Side recorded;
  Tensor before[3];               // the output buffers as the kernel found them, by Gradient
  std::optional<Side> reference;  // what the test compared with
  Side float64;                   // the captured bits in float64 arithmetic, under the recorded conventions
  std::vector<Side> replays;      // "deterministic", "atomic", ...; "grid_sample" is the one advice is given on
};

struct Settings {
  // A test's tolerance. Without one, an element is out of tolerance if it misses both the field's customary tolerance
  // (customary_tolerance) and the bound on rounding: no tolerance that nobody set can be missed by rounding alone.
  std::optional<Tolerance> tolerance;
  int threads = 0;
};

// What tests of this operator use where they name no other: docs/causes.md gives the sources.
Tolerance customary_tolerance(msda_dtype stored);

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
  bool advice = false;                // nothing is out of tolerance, but a test against grid_sample would fail
  int64_t explained_by_rounding = 0;  // elements beyond the customary tolerance, but within the bound on rounding
};

struct Report {
  std::vector<NamedComparison> comparisons;
  std::vector<JudgedElements> judged;  // against the reference, against float64, then advice
  std::vector<Finding> findings;       // in the same order: of all those elements, or the most telling of each set
  std::vector<Group> groups;  // of all those elements: what they share; what the verdict rests on first, advice last
  // Changes of the recorded conventions under which float64 gives what is out of tolerance: "padding border in place of
  // zeros". Tried where a share of the gradients of samples is wrong, or the reference is wrong in the same way.
  std::vector<std::string> fits;
  Verdict verdict;
};

// Of each set of elements that are judged alike, at most this many are findings: half of them the farthest from their
// tolerance, half spread evenly over the rest.
inline constexpr int64_t kMostDescribed = 4000;
// Of a gradient and comparison up to this many are findings of their own; of more, neighbours of the same cause and
// fault are told as runs.
inline constexpr int64_t kMostSingle = 256;

Report analyze(const Material& material, const Settings& settings);

// The verdict of several calls together, with a sentence for all of them.
Verdict combine(const std::vector<Verdict>& verdicts);

}  // namespace msda::analysis
