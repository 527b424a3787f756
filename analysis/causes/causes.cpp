#include "analysis/causes/causes.h"

namespace msda::analysis {

Diagnosis diagnose(const Suspect& suspect) {
  for (const auto test :
       {test_non_finite, test_uninitialized_output, test_cell_boundary, test_border_clamp, test_stopped_sum,
        test_accumulation_order, test_unwritten_beside_rounding, test_ill_conditioned, test_reduced_precision}) {
    if (auto diagnosis = test(suspect)) return *diagnosis;
  }
  return implementation_error(suspect);
}

AtFault rounding_fault(const Suspect& s) {
  // No replay is more exact than float64 kernels themselves are, and none adds in a 16-bit type.
  const auto adds_in_16_bits = [&](const Side& side) { return is_16_bits(side.arithmetic_of(s.id.gradient)); };
  if (s.call.arithmetic() == MSDA_FLOAT64 || adds_in_16_bits(s.observed) || adds_in_16_bits(s.expected)) {
    return AtFault::kTolerance;
  }
  if (s.against_float64) return s.any_holds ? AtFault::kObserved : AtFault::kTolerance;
  if (s.observed_holds && s.expected_holds) return AtFault::kTolerance;
  if (s.observed_holds) return AtFault::kReference;
  if (s.expected_holds) return AtFault::kObserved;
  return s.any_holds ? AtFault::kObserved : AtFault::kTolerance;
}

std::optional<Evaluation> way_of(const Suspect& s, const Side& side, const Match& match) {
  const Axes axes = s.call.axes(s.id);
  if (axes.empty() || axes[0].size != 0) return std::nullopt;
  for (const Evaluation& way : side.version_of(s.call).evaluations(axes[0], side.arithmetic_of(s.id.gradient))) {
    if (way.landing == match.place[0]) return way;
  }
  return std::nullopt;
}

bool only_16_bits_explain(const Suspect& s) {
  const auto holds_of = [&](const Side& side, double value) {
    return is_16_bits(side.arithmetic_of(s.id.gradient)) &&
           !explain(s.call, side.in(MSDA_FLOAT32, s.id.gradient), s.id, value, s.cache).explained();
  };
  return holds_of(s.observed, s.observed_value) || (!s.against_float64 && holds_of(s.expected, s.expected_value));
}

ArithmeticNames arithmetic_names(const Suspect& s) {
  const std::string observed = s.observed.version_of(s.call).arithmetic_name();
  const std::string expected = s.expected.version_of(s.call).arithmetic_name();
  if (s.against_float64) return {observed, "float64"};
  if (observed == expected) return {s.observed.name, s.expected.name};
  return {observed, expected};
}

std::optional<MatchPair> best_pair(const Suspect& s) {
  std::optional<MatchPair> best;
  const auto misfit = [](const MatchPair& pair) {
    const auto share = [](const Match& m) { return m.bound > 0 ? m.residual / m.bound : 0; };
    return share(*pair.observed) + share(*pair.expected);
  };
  for (const size_t o : s.of_observed.matches) {
    for (const size_t e : s.of_expected.matches) {
      MatchPair pair{&s.of_observed.candidates[o], &s.of_expected.candidates[e], 0};
      for (size_t axis = 0; axis < pair.observed->place.size(); ++axis) {
        pair.axes += !(pair.observed->place[axis] == pair.expected->place[axis]);
      }
      const bool better = !best || (pair.axes != best->axes ? pair.axes < best->axes : misfit(pair) < misfit(*best));
      if (better) best = pair;
    }
  }
  return best;
}

}  // namespace msda::analysis
