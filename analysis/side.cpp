#include "analysis/side.h"

#include "analysis/orders.h"

namespace msda::analysis {

ElementId element_id(const Call& call, Gradient gradient, int64_t flat) {
  ElementId id{gradient, flat, {}};
  switch (gradient) {
    case Gradient::kValue:
      id.index = Tensor{nullptr, MSDA_FLOAT32, {call.B, call.S, call.M, call.D}}.index_of(flat);
      id.pixel = pixel_of(call, flat);
      break;
    case Gradient::kSamplingLocations:
      id.index = Tensor{nullptr, MSDA_FLOAT32, {call.B, call.Q, call.M, call.L, call.P, 2}}.index_of(flat);
      id.sample = sample_of_weight(call, flat / 2);
      id.axis = static_cast<int>(flat % 2);
      break;
    case Gradient::kAttentionWeights:
      id.index = Tensor{nullptr, MSDA_FLOAT32, {call.B, call.Q, call.M, call.L, call.P}}.index_of(flat);
      id.sample = sample_of_weight(call, flat);
      break;
  }
  return id;
}

double storage_error(const Side& side, Gradient gradient, double x) {
  const msda_dtype stored = side.of(gradient).dtype;
  if (stored == side.arithmetic_of(gradient)) return 0;
  const Precision storage = Precision::of(stored);
  return storage.unit * std::abs(x) + storage.tiny;
}

namespace {

// The candidate whose addends addends_of() makes: the landing of the arithmetic as kernels/sample.h spells it out,
// which near a boundary may be another than the exact one. Empty if it is none of them.
std::optional<size_t> computed_candidate(const Call& call, const Side& side, const ElementId& id,
                                         const std::vector<Match>& candidates) {
  if (id.is_pixel() || candidates.size() == 1) return 0;
  const LevelSize& level = call.levels[static_cast<size_t>(id.sample.l)];
  const auto landing = [&](int axis) {
    return evaluations(side.conventions, id.sample.location(call, axis), side_of(level, axis), call.arithmetic())
        .front()
        .landing;
  };
  const Landing x = landing(0), y = landing(1);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].x == x && candidates[i].y == y) return i;
  }
  return std::nullopt;
}

// Orders of the addends may go farther than the probable bound where their roundings lean one way.
void try_other_orders(const Call& call, const Side& side, const ElementId& id, msda_dtype arithmetic,
                      Explanation& explanation, ContributionCache& cache) {
  constexpr int kShuffles = 16;
  const auto computed = computed_candidate(call, side, id, explanation.candidates);
  if (!computed) return;
  Match& match = explanation.candidates[*computed];
  if (match.residual > match.bound + 2 * match.element.certain) return;  // no order goes that far
  const Addends addends = addends_of(call, side.conventions, id, cache);
  if (addends.values.size() < 3 || !std::isfinite(addends.magnitude())) return;
  const Spread spread = try_orders(addends, arithmetic, Orders::kLikely, kShuffles);
  const double bound = match.element.from_coordinates + reach_of(spread, match.element.value) +
                       storage_error(side, id.gradient, match.element.value);
  if (!(match.residual <= bound)) return;
  match.bound = bound;
  explanation.matches.push_back(*computed);
}

// The precision that coordinates are computed in, and that of everything else.
struct Precisions {
  Precision coordinates, rest;
};
Precisions precisions_of(msda_dtype arithmetic, const Reduction* reduction) {
  if (reduction == nullptr || !reduction->rounds(kSums)) return {Precision::of(arithmetic), Precision::of(arithmetic)};
  // Kernels that add in a 16-bit type compute coordinates in float32.
  return {Precision::of(MSDA_FLOAT32), precision_of(reduction->narrow)};
}

// A match for each way in which the element's samples may have landed, without the side's value.
std::vector<Match> candidates_of(const Call& call, const Side& side, const ElementId& id, const Reduction* reduction,
                                 ContributionCache& cache) {
  const auto [coordinates, rest] = precisions_of(side.arithmetic_of(id.gradient), reduction);
  if (id.is_pixel()) {
    const auto contributions = cache.get(side.conventions, id.pixel.b, id.pixel.m, id.pixel.l, coordinates, reduction);
    return {{{}, {}, pixel_element(call, id.pixel, contributions->exact(id.pixel.s), rest, reduction)}};
  }
  const LevelSize& level = call.levels[static_cast<size_t>(id.sample.l)];
  const auto along = [&](int axis) {
    const double location = id.sample.location(call, axis);
    return landings(side.conventions, reduction != nullptr ? reduction->round(kLocations, location) : location,
                    side_of(level, axis), coordinates);
  };
  const Landings xs = along(0), ys = along(1);
  std::vector<Match> candidates;
  for (const Landing& x : xs) {
    for (const Landing& y : ys) {
      candidates.push_back(
          {x, y, sample_element(call, side.conventions, id.sample, id.gradient, id.axis, x, y, rest, reduction)});
    }
  }
  return candidates;
}

// How far from the element's value in the direction of `value` a result may be that is rounded in the end.
double reach_of_rounded(Narrow narrow, double exact, double bound, double value) {
  return value >= exact ? round_to(narrow, exact + bound) - exact : exact - round_to(narrow, exact - bound);
}

Explanation explain_with(const Call& call, const Side& side, const ElementId& id, double value,
                         const Reduction* reduction, ContributionCache& cache) {
  Explanation explanation;
  explanation.value = value;
  explanation.reduced = reduction != nullptr;
  explanation.candidates = candidates_of(call, side, id, reduction, cache);
  const bool rounds_result = reduction != nullptr && reduction->rounds(kResult);
  for (size_t i = 0; i < explanation.candidates.size(); ++i) {
    Match& match = explanation.candidates[i];
    match.residual = std::abs(value - match.element.value);
    match.bound = match.element.bound();
    // "Exact" is float64 itself; where the side is too, the two may err in opposite directions.
    if (side.arithmetic_of(id.gradient) == MSDA_FLOAT64) match.bound *= 2;
    if (rounds_result) match.bound = reach_of_rounded(reduction->narrow, match.element.value, match.bound, value);
    match.bound += storage_error(side, id.gradient, std::abs(match.element.value) + match.bound);
    const bool possible = !rounds_result || round_to(reduction->narrow, value) == value;
    if (possible && match.residual <= match.bound) explanation.matches.push_back(i);
  }
  return explanation;
}

}  // namespace

Explanation explain(const Call& call, const Side& side, const ElementId& id, ContributionCache& cache) {
  return explain(call, side, id, side.of(id.gradient).at(id.flat), cache);
}

Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, ContributionCache& cache) {
  Explanation explanation = explain_with(call, side, id, value, nullptr, cache);
  if (!explanation.explained() && std::isfinite(value)) {
    try_other_orders(call, side, id, side.arithmetic_of(id.gradient), explanation, cache);
  }
  return explanation;
}

Explanation explain_reduced(const Call& call, const Side& side, const ElementId& id, const Reduction& reduction,
                            ContributionCache& cache) {
  Explanation explanation = explain_with(call, side, id, side.of(id.gradient).at(id.flat), &reduction, cache);
  if (!explanation.explained() && reduction.rounds(kSums) && std::isfinite(explanation.value)) {
    try_other_orders(call, side, id, stored_type(reduction.narrow), explanation, cache);
  }
  return explanation;
}

Explanation explain_best(const Call& call, const Side& side, const ElementId& id, ContributionCache& cache) {
  Explanation plain = explain(call, side, id, cache);
  const FoundReduction* reduction = side.reduction_of(id.gradient);
  if (plain.explained() || reduction == nullptr) return plain;
  for (const Narrow narrow : reduction->alike) {
    Explanation reduced = explain_reduced(call, side, id, {narrow, reduction->steps}, cache);
    if (reduced.explained()) return reduced;
  }
  return plain;
}

}  // namespace msda::analysis
