#include "analysis/model/explain.h"

#include <algorithm>

#include "analysis/numbers/reordered_sums.h"

namespace msda::analysis {

double storage_error(const Side& side, Gradient gradient, double x) {
  const msda_dtype stored = side.of(gradient).dtype;
  if (stored == side.arithmetic_of(gradient)) return 0;
  const Precision storage = Precision::of(stored);
  return storage.unit * std::abs(x) + storage.tiny;
}

namespace {

// Returns the candidate whose addends addends_of() makes: the landing of the arithmetic as kernels/sample.h spells it
// out, which near a boundary may be another than the exact one. Empty if it is none of them.
std::optional<size_t> computed_candidate(const Call& call, const Side& side, const ElementId& id,
                                         const std::vector<Match>& candidates) {
  if (candidates.size() == 1) return 0;
  const Axes axes = call.axes(id);
  if (id.gradient.scattered() && axes[0].size != 0) return 0;
  Place place;
  for (const Axis& axis : axes) {
    place.push_back(side.version_of(call).evaluations(axis, call.arithmetic()).front().landing);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (std::ranges::equal(candidates[i].place, place)) return i;
  }
  return std::nullopt;
}

// Returns the candidates that have these addends, with what multiplies their sums beside the first one's: where an axis
// has no cells, those that differ by what the sum is divided by.
std::vector<std::pair<size_t, double>> with_scales(const Call& call, const ElementId& id, size_t computed,
                                                   const std::vector<Match>& candidates) {
  std::vector<std::pair<size_t, double>> all{{computed, 1}};
  const Axes axes = call.axes(id);
  const Element& first = candidates[computed].element;
  if (axes.empty() || axes[0].size != 0 || first.value == 0) return all;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Element& element = candidates[i].element;
    const double scale = element.value / first.value;
    const bool only_divided = std::abs(element.cancelled - scale * first.cancelled) <= 1e-9 * element.cancelled;
    if (i != computed && only_divided) all.emplace_back(i, scale);
  }
  return all;
}

// Returns whether the side's arithmetic, in some order, makes the value of some choice of the tied samples. Where many
// choices come near, orders are no evidence.
bool an_order_of_ties_gives(const Side& side, Gradient gradient, msda_dtype arithmetic, const TiedSum& ties,
                            double value, int shuffles) {
  constexpr size_t kMost = 16;
  std::vector<std::pair<double, size_t>> near;
  ties.visit_sums([&](double sum, size_t chosen) {
    const double reach = ties.from_rounding + 2 * ties.worst;
    if (std::abs(value - sum) <= reach + storage_error(side, gradient, std::abs(sum) + reach)) {
      near.emplace_back(sum, chosen);
    }
    return near.size() > kMost;
  });
  if (near.size() > kMost) return true;
  return std::ranges::any_of(near, [&](const auto& choice) {
    Addends addends{ties.certain};
    for (size_t i = 0; i < ties.tied.size(); ++i) {
      if ((choice.second >> i & 1) != 0) addends.values.push_back(ties.tied[i]);
    }
    const double reach = reach_of(try_orders(addends, arithmetic, Orders::kLikely, shuffles), choice.first);
    return std::abs(value - choice.first) <= reach + storage_error(side, gradient, choice.first);
  });
}

// Orders of the addends may go farther than the probable bound where their roundings lean one way.
void try_other_orders(const Call& call, const Side& side, const ElementId& id, msda_dtype arithmetic,
                      Explanation& explanation, Cache& cache) {
  constexpr int kFewShuffles = 16;
  const auto computed = computed_candidate(call, side, id, explanation.candidates);
  if (!computed) return;
  for (const auto& [candidate, scale] : with_scales(call, id, *computed, explanation.candidates)) {
    Match& match = explanation.candidates[candidate];
    if (match.residual > match.bound + 2 * match.element.certain) continue;  // no order goes that far
    Addends addends = side.version_of(call).addends(id, cache);
    if (addends.values.size() < 3 || !std::isfinite(addends.magnitude())) continue;
    addends.scale *= scale;
    const Spread spread = try_orders(addends, arithmetic, Orders::kLikely, kFewShuffles);
    const double bound = match.element.from_coordinates + reach_of(spread, match.element.value) +
                         storage_error(side, id.gradient, match.element.value);
    if (!(match.residual <= bound)) continue;
    const TiedSum& ties = match.element.ties;
    if (ties.any() && !an_order_of_ties_gives(side, id.gradient, arithmetic, ties, explanation.value, kFewShuffles))
      continue;
    match.bound = bound;
    explanation.matches.push_back(candidate);
  }
}

// Returns whether an infinite value is what the side's type makes of a gradient so near to the match's.
bool overflows_to(const Side& side, Gradient gradient, const Match& match, double value) {
  const double farthest = match.element.value + std::copysign(match.bound, value);
  return farthest * value > 0 && std::isinf(rounded_to(farthest, side.of(gradient).dtype));
}

// Returns how far a value is from the match's, one of which is not finite: not at all if it is what the exact one is,
// or what the type makes of numbers on the way to it. Every bound on the error of an infinite number is infinite, and
// says nothing.
double residual_of_non_finite(const Side& side, Gradient gradient, const Match& match, double value) {
  const bool same = value == match.element.value ||
                    (std::isnan(value) && (match.element.may_be_nan || std::isnan(match.element.value)));
  const double largest = Precision::of(side.arithmetic_of(gradient)).largest;
  const bool overflows = !std::isfinite(value) && (match.element.partials.may_overflow_to(value, largest) ||
                                                   (std::isinf(value) && overflows_to(side, gradient, match, value)));
  return same || overflows ? 0 : INFINITY;
}

Precisions precisions_of(msda_dtype arithmetic, const Narrowing* narrowing) {
  if (narrowing == nullptr || !narrowing->rounds(kSums)) return {Precision::of(arithmetic), Precision::of(arithmetic)};
  // Kernels that add in a 16-bit type compute coordinates in float32.
  return {Precision::of(MSDA_FLOAT32), precision_of(narrowing->narrow)};
}

// Returns a match for each way in which the element's samples may have landed, without the side's value.
std::vector<Match> candidates_of(const Call& call, const Side& side, const ElementId& id, const Narrowing* narrowing,
                                 Cache& cache) {
  const Precisions precisions = precisions_of(side.arithmetic_of(id.gradient), narrowing);
  std::vector<Landings> along;
  for (const Axis& axis : call.axes(id)) {
    along.push_back(side.version_of(call).landings(call.rounded(axis, narrowing), precisions.coordinates));
  }
  std::vector<Match> candidates;
  Place start;
  visit_places(along, start, [&](const Place& place) {
    candidates.push_back({place, side.version_of(call).element(id, place, precisions, narrowing, cache)});
    return false;
  });
  return candidates;
}

// Returns whether arithmetic that rounds its result to few bits may have returned this.
bool is_result_of(const Narrowing* narrowing, double value) {
  return narrowing == nullptr || !narrowing->rounds(kResult) || round_to(narrowing->narrow, value) == value;
}

// Returns how far from the element's value in the direction of `value` a result may be that is rounded in the end.
double reach_of_rounded(Narrow narrow, double exact, double bound, double value) {
  return value >= exact ? round_to(narrow, exact + bound) - exact : exact - round_to(narrow, exact - bound);
}

// Returns how far from an exact value the side's may be, in the direction of `value`, if its arithmetic errs by this
// much.
double reach_in(const Side& side, Gradient gradient, const Narrowing* narrowing, double exact, double error,
                double value) {
  // "Exact" is float64 itself; where the side is too, the two may err in opposite directions.
  if (side.arithmetic_of(gradient) == MSDA_FLOAT64) error *= 2;
  const bool rounds_result = narrowing != nullptr && narrowing->rounds(kResult);
  if (rounds_result) error = reach_of_rounded(narrowing->narrow, exact, error, value);
  return error + storage_error(side, gradient, std::abs(exact) + error);
}

// Returns whether rounding makes the value of some choice of the tied samples, if there are any.
bool some_choice_gives(const Side& side, Gradient gradient, const Narrowing* narrowing, const TiedSum& ties,
                       double value) {
  return !ties.any() || ties.visit_sums([&](double sum, size_t) {
    return std::abs(value - sum) <= reach_in(side, gradient, narrowing, sum, ties.from_rounding, value);
  });
}

Explanation explain_with(const Call& call, const Side& side, const ElementId& id, double value,
                         const Narrowing* narrowing, Cache& cache) {
  Explanation explanation;
  explanation.value = value;
  explanation.reduced = narrowing != nullptr;
  explanation.candidates = candidates_of(call, side, id, narrowing, cache);
  for (size_t i = 0; i < explanation.candidates.size(); ++i) {
    Match& match = explanation.candidates[i];
    match.residual = std::abs(value - match.element.value);
    match.bound = reach_in(side, id.gradient, narrowing, match.element.value, match.element.bound(), value);
    const TiedSum& ties = match.element.ties;
    match.of_choice = ties.any()
                          ? reach_in(side, id.gradient, narrowing, match.element.value, ties.from_rounding, value)
                          : match.bound;
    const bool finite = std::isfinite(value) && std::isfinite(match.element.value);
    if (!finite) match.residual = residual_of_non_finite(side, id.gradient, match, value);
    const bool within = finite ? match.residual <= match.bound && is_result_of(narrowing, value) &&
                                     some_choice_gives(side, id.gradient, narrowing, ties, value)
                               : match.residual == 0;
    if (within) explanation.matches.push_back(i);
  }
  const auto is_last_resort = [&](size_t i) {
    return std::ranges::any_of(explanation.candidates[i].place, &Landing::last_resort);
  };
  if (!std::ranges::all_of(explanation.matches, is_last_resort)) std::erase_if(explanation.matches, is_last_resort);
  return explanation;
}

double least_residual(const Explanation& explanation) {
  double least = INFINITY;
  for (const size_t i : explanation.matches) least = std::min(least, explanation.candidates[i].residual);
  return least;
}

// Returns whether nothing can explain the value better. 0 is a number of every type.
bool fits_best(const Explanation& plain) {
  return plain.explained() && (plain.value == 0 || !std::isfinite(plain.value) || least_residual(plain) == 0);
}

// Returns whether a value that rounding in the side's own type explains as well is what the narrowing, which other
// elements have shown, makes of it: by chance it lies so much nearer to that, and has no bits below those of the narrow
// type, once in 2^kBitsNearer.
bool fits_much_better(const Side& side, Gradient gradient, const Narrowing& narrowing, const Explanation& reduced,
                      const Explanation& plain) {
  constexpr double kBitsNearer = 4;
  const double value = plain.value, own = least_residual(plain);
  const int stored = Precision::of(side.arithmetic_of(gradient)).bits;
  const double last = std::ldexp(std::abs(value), -stored);
  double bits = std::log2(own / std::max(least_residual(reduced), last));
  const Element& exact = plain.exact().element;
  if (narrowing.rounds(kResult) && round_to(narrowing.narrow, exact.value) != exact.value) {
    bits = std::max(bits, 0.0) + free_bits(narrowing.narrow, stored, value, exact.cancelled);
  }
  return bits >= kBitsNearer;
}

}  // namespace

Explanation explain(const Call& call, const Side& side, const ElementId& id, Cache& cache) {
  return explain(call, side, id, side.of(id.gradient).at(id.flat), cache);
}

Explanation explain(const Call& call, const Side& side, const ElementId& id, double value, Cache& cache) {
  Explanation explanation = explain_with(call, side, id, value, nullptr, cache);
  if (!explanation.explained() && std::isfinite(value)) {
    try_other_orders(call, side, id, side.arithmetic_of(id.gradient), explanation, cache);
  }
  return explanation;
}

Explanation explain_reduced(const Call& call, const Side& side, const ElementId& id, const Narrowing& narrowing,
                            Cache& cache) {
  Explanation explanation = explain_with(call, side, id, side.of(id.gradient).at(id.flat), &narrowing, cache);
  const bool may_be_sum = narrowing.rounds(kSums) && is_result_of(&narrowing, explanation.value);
  if (!explanation.explained() && may_be_sum && std::isfinite(explanation.value)) {
    try_other_orders(call, side, id, stored_type(narrowing.narrow), explanation, cache);
  }
  return explanation;
}

Explanation explain_best(const Call& call, const Side& side, const ElementId& id, Cache& cache) {
  Explanation plain = explain(call, side, id, cache);
  const FoundNarrowing* narrowing = side.narrowing_of(id.gradient);
  if (narrowing == nullptr || fits_best(plain)) return plain;
  for (const Narrow narrow : narrowing->alike) {
    const Narrowing tried{narrow, narrowing->steps};
    Explanation reduced = explain_reduced(call, side, id, tried, cache);
    if (reduced.explained() && (!plain.explained() || fits_much_better(side, id.gradient, tried, reduced, plain)))
      return reduced;
  }
  return plain;
}

}  // namespace msda::analysis
