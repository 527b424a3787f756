// Finds the cause of each element of the recorded side that is out of tolerance.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/causes/causes.h"
#include "analysis/judge/analyze.h"

namespace msda::analysis {

// The judgement on one element.
struct Judgement {
  int64_t flat = 0;
  Cause cause = Cause::kImplementationError;
  AtFault at_fault = AtFault::kNone;
  double chance_bits = 0;     // of uninitialized_output in 16 bits: chance_bits_of_buffer()
  bool only_16_bits = false;  // of rounding, beyond the tolerance: only_16_bits_explain()
};

// What the output buffers held before the launch, by Gradient.
using Leftovers = std::array<std::optional<Leftover>, kMostGradients>;
// By Gradient: whether chance alone makes leftover values fit, so that they are no evidence.
using Chances = std::array<bool, kMostGradients>;

class Examiner {
 public:
  // The material is that of analyze(); the sides have the arithmetic that was detected for them. All of it must outlive
  // this object.
  Examiner(const Material& material, const Settings& settings, const Side& recorded,
           const std::optional<Side>& reference, const Leftovers& leftovers, const Chances& by_chance)
      : material_(material),
        settings_(settings),
        recorded_(recorded),
        reference_(reference),
        leftovers_(leftovers),
        by_chance_(by_chance) {}

  // Judges these elements of a gradient against another side; the results are in the elements' order.
  std::vector<Judgement> judge(const Side& expected, Gradient gradient, const std::vector<int64_t>& elements) const;

  // Returns the same with evidence.
  std::vector<Finding> describe(const Side& expected, Gradient gradient, const std::vector<int64_t>& elements) const;

  Tolerance tolerance_of(Gradient gradient) const;

 private:
  // Calls visit(index among the elements, cache) for each, on all cores.
  template <class Visit>
  void for_each(Gradient gradient, const std::vector<int64_t>& elements, Visit&& visit) const;
  Finding describe_element(const Side& expected, const ElementId& id, Cache& cache) const;
  // Returns what the buffer held there, if that is known and is evidence.
  std::optional<double> before_of(const ElementId& id) const;
  // Returns whether nobody set a tolerance, and rounding alone explains the element's difference from float64.
  bool is_forgiven(const Side& expected, const ElementId& id, const Explanation& of_observed) const;
  Suspect suspect(const Side& expected, const ElementId& id, Explanation of_observed, Cache& cache,
                  bool wants_reasons) const;

  const Material& material_;
  const Settings& settings_;
  const Side& recorded_;
  const std::optional<Side>& reference_;
  const Leftovers& leftovers_;
  const Chances& by_chance_;
};

}  // namespace msda::analysis
