// Elements out of tolerance that belong together, and what they share.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/model/call.h"
#include "analysis/model/wrong_values.h"

namespace msda::analysis {

struct Finding;
struct Material;

// Consecutive elements of a tensor, by their row-major numbers.
struct ElementRun {
  int64_t flat, count;
};

// Elements out of tolerance of one comparison that have a cause and a fault in common: all of them.
struct JudgedElements {
  using Run = ElementRun;
  Gradient gradient;
  std::string against;    // the expected side
  bool advisory = false;  // counts neither for the verdict nor for the exit status
  Cause cause = Cause::kImplementationError;
  AtFault at_fault = AtFault::kNone;
  int64_t elements = 0;
  std::vector<Run> runs;  // ascending
};

// Elements of one gradient with one cause and one party at fault. Each element is in one group only, what it misses the
// reference for before what it misses float64 for; but what the recorded side did wrong is in a group beside what the
// reference did.
struct Group : WrongValues {
  Cause cause = Cause::kImplementationError;
  AtFault at_fault = AtFault::kNone;  // as the verdict charges it
  bool advisory = false;
  std::vector<std::string> against;  // sides that some of the elements miss
  int64_t elements = 0;
  std::vector<ElementRun> runs;  // ascending
  std::string as_if;             // the mistake that gives these values, in words that follow "as if"; or empty
  size_t farthest = 0;           // the place among the findings of the one to show

  bool contains(int64_t flat) const;
  bool contains(const Finding& finding) const;
  // Returns whether the elements are all that there are within their extents.
  bool is_complete() const;
};

// Returns whether a side that is at fault for this made a mistake, and did not merely round another way than float64.
bool is_mistake(Cause cause);

// Returns the groups of what was judged: the gravest party first, advice last.
std::vector<Group> group_elements(const std::vector<JudgedElements>& judged);

// Fills in what each group shares. The findings are those of the same report.
void describe_groups(const Material& material, const std::vector<Finding>& findings, std::vector<Group>& groups);

}  // namespace msda::analysis
