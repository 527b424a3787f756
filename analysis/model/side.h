// The sides of a comparison, and the explanations of a side's value of one element.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/reduced_precision.h"

namespace msda::analysis {

// Where gradients come from. The name does not decide it, because results in a capture may have any name.
enum class Source { kRecorded, kStored, kReplay };

// Gradients from one source: "recorded", "reference", "deterministic", "float64", "grid_sample", ...
struct Side {
  std::string name;
  Source source = Source::kReplay;
  Conventions conventions;
  Tensor tensors[kMostGradients];  // by Gradient; without data: the side does not have it
  msda_dtype arithmetic[kMostGradients] = {MSDA_FLOAT32, MSDA_FLOAT32, MSDA_FLOAT32};  // in which it computes each
  std::optional<FoundReduction> reduction[kMostGradients];  // of less precision than that, if found

  const Tensor& of(Gradient gradient) const { return tensors[gradient.place()]; }
  msda_dtype arithmetic_of(Gradient gradient) const { return arithmetic[gradient.place()]; }
  const FoundReduction* reduction_of(Gradient gradient) const {
    const auto& found = reduction[gradient.place()];
    return found ? &*found : nullptr;
  }
  // Returns the side as if it computed the gradient in this arithmetic.
  Side in(msda_dtype dtype, Gradient gradient) const {
    Side side = *this;
    side.arithmetic[gradient.place()] = dtype;
    return side;
  }
  bool is_replay(std::string_view mode) const { return source == Source::kReplay && name == mode; }
  bool is_deterministic() const { return is_replay("deterministic"); }
};

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
  bool reduced = false;           // by arithmetic with a reduction, all of the above
  bool explained() const { return !matches.empty(); }
  const Match& exact() const { return candidates.front(); }
};

// Explains the side's value of the element, or another `value` in its place.
Explanation explain(const Call& call, const Side& side, const ElementId& id, Cache& cache);
Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, Cache& cache);
// Explains the value by arithmetic with a reduction.
Explanation explain_reduced(const Call& call, const Side& side, const ElementId& id, const Reduction& reduction,
                            Cache& cache);
// Explains the value by the side's arithmetic or, if that fails or fits much worse, with the side's reduction.
Explanation explain_best(const Call& call, const Side& side, const ElementId& id, Cache& cache);

// Returns the error of rounding x into the type of the side's tensor, in addition to the arithmetic's error.
double storage_error(const Side& side, Gradient gradient, double x);

}  // namespace msda::analysis
