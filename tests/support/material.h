// The analysis' input as `msda-replay run` makes it, from a Problem; owns its memory.
#pragma once

#include <memory>
#include <optional>

#include "analysis/judge/analyze.h"
#include "tests/support/problem.h"

namespace msda::tests {

class TestMaterial {
 public:
  // Recorded is an atomic replay, as a GPU might have given it; there is no reference and no tolerance.
  explicit TestMaterial(const Problem& problem);

  Problem problem;
  Gradients recorded;
  std::optional<Gradients> reference;  // of grid_sample's conventions, unless changed
  analysis::Conventions reference_conventions;
  std::optional<OwnedTensor> before[3];
  std::optional<analysis::Tolerance> tolerance;
  std::vector<analysis::Side> more;  // replays

  // A correct reference: grid_sample in float32.
  void add_reference();
  // Replays and analyzes.
  analysis::Report analyze() const;
};

}  // namespace msda::tests
