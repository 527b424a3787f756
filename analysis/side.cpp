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
void try_other_orders(const Call& call, const Side& side, const ElementId& id, Explanation& explanation,
                      ContributionCache& cache) {
  constexpr int kShuffles = 16;
  const auto computed = computed_candidate(call, side, id, explanation.candidates);
  if (!computed) return;
  Match& match = explanation.candidates[*computed];
  if (match.residual > match.bound + 2 * match.element.certain) return;  // no order goes that far
  const Addends addends = addends_of(call, side.conventions, id, cache);
  if (addends.values.size() < 3 || !std::isfinite(addends.magnitude())) return;
  const Spread spread = try_orders(addends, side.arithmetic_of(id.gradient), Orders::kLikely, kShuffles);
  const double bound = match.element.from_coordinates + reach_of(spread, match.element.value) +
                       storage_error(side, id.gradient, match.element.value);
  if (!(match.residual <= bound)) return;
  match.bound = bound;
  explanation.matches.push_back(*computed);
}

}  // namespace

Explanation explain(const Call& call, const Side& side, const ElementId& id, ContributionCache& cache) {
  return explain(call, side, id, side.of(id.gradient).at(id.flat), cache);
}

Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, ContributionCache& cache) {
  const msda_dtype arithmetic = side.arithmetic_of(id.gradient);
  const Precision precision = Precision::of(arithmetic);
  Explanation explanation;
  explanation.value = value;
  if (id.is_pixel()) {
    const auto contributions = cache.get(side.conventions, id.pixel.b, id.pixel.m, id.pixel.l, precision);
    Match match;
    match.element = pixel_element(call, id.pixel, contributions->exact(id.pixel.s), precision);
    explanation.candidates.push_back(match);
  } else {
    const LevelSize& level = call.levels[static_cast<size_t>(id.sample.l)];
    const auto xs = landings(side.conventions, id.sample.location(call, 0), level.width, precision);
    const auto ys = landings(side.conventions, id.sample.location(call, 1), level.height, precision);
    for (const Landing& x : xs) {
      for (const Landing& y : ys) {
        Match match{x, y, sample_element(call, side.conventions, id.sample, id.gradient, id.axis, x, y, precision)};
        explanation.candidates.push_back(match);
      }
    }
  }
  for (size_t i = 0; i < explanation.candidates.size(); ++i) {
    Match& match = explanation.candidates[i];
    match.residual = std::abs(value - match.element.value);
    match.bound = match.element.bound();
    // "Exact" is float64 itself; if the side is, too, the two may err in opposite directions.
    if (arithmetic == MSDA_FLOAT64) match.bound *= 2;
    match.bound += storage_error(side, id.gradient, std::abs(match.element.value) + match.bound);
    if (match.residual <= match.bound) explanation.matches.push_back(i);
  }
  if (!explanation.explained() && std::isfinite(value)) try_other_orders(call, side, id, explanation, cache);
  return explanation;
}

}  // namespace msda::analysis
