// The sides of a comparison, and what explains one side's value of one element.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/call.h"
#include "analysis/element.h"
#include "analysis/landing.h"

namespace msda::analysis {

// Where gradients come from. The name does not tell: results in a capture may have any.
enum class Source { kRecorded, kStored, kReplay };

// Gradients from one source: "recorded", "reference", "deterministic", "float64", "grid_sample", ...
struct Side {
  std::string name;
  Source source = Source::kReplay;
  Conventions conventions;
  Tensor tensors[3];  // by Gradient; one without data is one that the side does not have
  msda_dtype arithmetic[3] = {MSDA_FLOAT32, MSDA_FLOAT32, MSDA_FLOAT32};  // the type that it computes each in

  const Tensor& of(Gradient gradient) const { return tensors[static_cast<int>(gradient)]; }
  msda_dtype arithmetic_of(Gradient gradient) const { return arithmetic[static_cast<int>(gradient)]; }
  bool is_replay(std::string_view mode) const { return source == Source::kReplay && name == mode; }
};

// One element of one gradient, and what it is the gradient of.
struct ElementId {
  Gradient gradient;
  int64_t flat;
  Index index;
  SampleId sample{};  // of grad_sampling_locations and grad_attention_weights
  int axis = 0;       // of grad_sampling_locations: 0 is x, 1 is y
  PixelId pixel{};    // of grad_value
  bool is_pixel() const { return gradient == Gradient::kValue; }
};
ElementId element_id(const Call& call, Gradient gradient, int64_t flat);

// A way to get a side's value: the sample landed there, and rounding did the rest.
struct Match {
  Landing x{}, y{};  // not for grad_value, whose terms meet at the boundaries
  Element element;
  double residual = 0;  // |side's value - element.value|
  double bound = 0;     // what rounding allows, the final rounding into the tensor's type included
};

struct Explanation {
  double value = 0;
  std::vector<Match> candidates;  // all landings, the exact one first
  std::vector<size_t> matches;    // those whose residual is within their bound
  bool explained() const { return !matches.empty(); }
  const Match& exact() const { return candidates.front(); }
};

// Of the side's value of the element, or of another `value` in its place.
Explanation explain(const Call& call, const Side& side, const ElementId& id, ContributionCache& cache);
Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, ContributionCache& cache);

// What rounding x into the type of the side's tensor may add, beside the arithmetic's own error.
double storage_error(const Side& side, Gradient gradient, double x);

}  // namespace msda::analysis
