#include "analysis/find_reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "analysis/arithmetic.h"

namespace msda::analysis {
namespace {

// Elements that are tried, and how few of them say nothing.
constexpr size_t kMostTried = 96, kFewestTried = 8;
constexpr int64_t kMostLookedAt = 1024;
// Of a thousand reductions and more, none passes by chance but once in 2^50 captures.
constexpr double kEvidenceBits = 64;

// The batch, head and level that elements belong to, whose samples or pixels are found at once.
struct Group {
  int64_t b, m, l;
  auto operator<=>(const Group&) const = default;
};

Group group_of(const ElementId& id) {
  if (id.is_pixel()) return {id.pixel.b, id.pixel.m, id.pixel.l};
  return {id.sample.b, id.sample.m, id.sample.l};
}

// The groups of some of the elements: one where finding them takes long.
std::vector<Group> groups_of(const Call& call, Gradient gradient, const std::vector<int64_t>& elements) {
  constexpr int64_t kMostGroups = 4, kMostSamples = 100'000;
  const int64_t most = std::clamp<int64_t>(kMostSamples / std::max<int64_t>(1, call.Q * call.P), 1, kMostGroups);
  std::set<Group> groups;
  const auto count = std::ssize(elements);
  for (int64_t i = 0; i < most && i < count; ++i) {
    groups.insert(group_of(element_id(call, gradient, elements[static_cast<size_t>(i * count / most)])));
  }
  return {groups.begin(), groups.end()};
}

// Some elements of a group, spread over it. Of the two gradients of a sample's location, which share most of their
// rounded numbers, one at most.
std::vector<int64_t> elements_of(const Call& call, Gradient gradient, const Group& group, int64_t most) {
  const LevelSize& level = call.levels[static_cast<size_t>(group.l)];
  const bool pixels = gradient == Gradient::kValue;
  const int64_t all = pixels ? int64_t{level.height} * level.width * call.D : call.Q * call.P;
  const int64_t count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * all / count;
    if (pixels) {
      elements.push_back(value_element(call, group.b, level.start + at / call.D, group.m, at % call.D));
    } else {
      const SampleId sample{group.b, at / call.P, group.m, group.l, at % call.P};
      const int64_t flat = sample.flat(call);
      elements.push_back(gradient == Gradient::kSamplingLocations ? 2 * flat + i % 2 : flat);
    }
  }
  return elements;
}

// Which steps a gradient has.
Steps inputs_of(Gradient gradient) {
  switch (gradient) {
    case Gradient::kValue:
      return kGradOutput | kAttentionWeights;
    case Gradient::kAttentionWeights:
      return kGradOutput | kValue;
    default:
      return kGradOutput | kAttentionWeights | kValue;
  }
}
Steps inner_steps_of(Gradient gradient) {
  const Steps always = kInterpolationWeights | kAddends;
  switch (gradient) {
    case Gradient::kValue:
      return always | kWeightedGradOutput;
    case Gradient::kAttentionWeights:
      return always | kSampledValue;
    default:
      return always | kSampledValue | kWeightedGradOutput;
  }
}

// All sets of some steps, smaller ones first.
std::vector<Steps> sets_of(Steps some) {
  std::vector<Steps> sets;
  for (Steps set = some;; set = (set - 1) & some) {
    sets.push_back(set);
    if (set == 0) break;
  }
  std::ranges::stable_sort(sets, {}, [](Steps set) { return std::popcount(set); });
  return sets;
}

class Search {
 public:
  Search(const Call& call, const Side& side, Gradient gradient, ContributionCache& cache)
      : call_(call), side_(side), gradient_(gradient), cache_(cache) {
    for (const Tensor* input : {&call.value, &call.sampling_locations, &call.attention_weights, &call.grad_output}) {
      own_bits_ = std::max(own_bits_, Precision::of(input->dtype).bits);
    }
  }

  std::optional<FoundReduction> find(const std::vector<int64_t>& unexplained) {
    collect(unexplained, kMostTried, kMostLookedAt);
    if (tried_.size() < kFewestTried) return std::nullopt;
    const Steps inputs = inputs_of(gradient_), inner = inner_steps_of(gradient_);
    if (auto found = best_of(sets_of(inputs | inner), /*screens=*/true)) return found;
    // Everything was cast. Rounded locations take longest: all samples land anew.
    std::vector<Steps> cast = sets_of(inner);
    for (Steps& set : cast) set |= inputs | kLocations;
    if (auto found = best_of(cast, /*screens=*/false)) return found;
    // Sums in the type itself hide more than any other, so that they come last. More elements tell whether the values
    // are such sums.
    auto found = best_of({kSums, kSums | kLocations}, /*screens=*/false);
    if (!found) return std::nullopt;
    constexpr int64_t kMore = 16;
    collect(unexplained, kMore * kMostTried, kMore * kMostLookedAt);
    if (!are_like_sums(stored_type(found->narrow))) return std::nullopt;
    return found;
  }

 private:
  // An element that the side's own arithmetic does not explain.
  struct Tried {
    ElementId id;
    double value, exact;
  };

  // Fills tried_, looking at so many elements.
  void collect(const std::vector<int64_t>& unexplained, size_t most_tried, int64_t most_looked_at) {
    constexpr int64_t kFewestAddends = 3;  // one or two have one sum in any type
    tried_.clear();
    std::vector<Tried> of_few_addends;
    const auto groups = groups_of(call_, gradient_, unexplained);
    std::map<std::pair<int64_t, int64_t>, int64_t> of_pixel;  // elements tried, by batch and pixel
    for (const Group& group : groups) {
      const size_t room = most_tried / groups.size() + tried_.size();
      for (const int64_t flat : elements_of(call_, gradient_, group, most_looked_at / std::ssize(groups))) {
        if (tried_.size() >= room) break;
        const double value = side_.of(gradient_).at(flat);
        if (!std::isfinite(value) || value == 0) continue;
        const ElementId id = element_id(call_, gradient_, flat);
        const Explanation explanation = explain(call_, side_, id, cache_);
        const Element& exact = explanation.exact().element;
        if (explanation.explained() || !std::isfinite(exact.value)) continue;
        // A pixel's channels share the roundings of all but grad_output: so many of them tell as it has addends.
        if (id.is_pixel() && of_pixel[{id.pixel.b, id.pixel.s}]++ >= exact.terms) continue;
        (exact.terms < kFewestAddends ? of_few_addends : tried_).push_back({id, value, exact.value});
      }
    }
    if (tried_.size() >= kFewestTried) return;
    const size_t room = std::min(of_few_addends.size(), most_tried - tried_.size());
    std::copy_n(of_few_addends.begin(), room, std::back_inserter(tried_));
  }

  // Whether the values lie to both sides of sums in the type, and about as far from the exact ones as such sums do: the
  // bound on sums in few bits is so wide that other values fit it too.
  bool are_like_sums(msda_dtype type) {
    constexpr double kSigmas = 5, kMuchFarther = 16;
    std::vector<ElementId> elements;
    double nearer = 0, farther = 0, much_farther = 0;
    for (const Tried& tried : tried_) {
      elements.push_back(tried.id);
      const double error = std::abs(tried.value - tried.exact);
      const double of_sum = std::abs(sum_in(call_, side_, tried.id, type, cache_) - tried.exact);
      (error < of_sum ? nearer : farther) += error != of_sum;
      much_farther += error > kMuchFarther * (of_sum + Precision::of(type).unit * std::abs(tried.exact));
    }
    return nearer - farther <= kSigmas * std::sqrt(nearer + farther) && 4 * much_farther <= nearer + farther &&
           !lie_to_one_side(call_, side_, elements, type, cache_);
  }

  // The type of the fewest bits that nearly all results are numbers of.
  std::optional<Narrow> type_of_results() const {
    for (const Narrow narrow : {Narrow::kBFloat16, Narrow::kFloat16, Narrow::kFloat32}) {
      const auto such = std::ranges::count_if(
          tried_, [&](const Tried& tried) { return round_to(narrow, tried.value) == tried.value; });
      if (significand_bits(narrow) < own_bits_ && is_nearly_all(such)) return narrow;
    }
    return std::nullopt;
  }
  bool is_nearly_all(int64_t fitting) const { return 4 * fitting >= 3 * std::ssize(tried_); }

  // Whether nearly all errors are small enough for rounding of any steps but the locations.
  bool is_large_enough(Narrow narrow) const {
    const auto within = std::ranges::count_if(tried_, [&](const Tried& tried) {
      const Explanation any = explain_reduced(call_, side_, tried.id, {narrow, kSums}, cache_);
      const Match& exact = any.exact();
      return any.explained() || exact.residual <= exact.element.from_coordinates + exact.element.certain;
    });
    return is_nearly_all(within);
  }

  // The reduction with one of these sets of steps that explains most; of those the one with the fewest steps.
  std::optional<FoundReduction> best_of(const std::vector<Steps>& sets, bool screens) {
    std::optional<FoundReduction> best;
    for (const Narrow narrow : kNarrowings) {
      if (significand_bits(narrow) >= own_bits_) continue;
      if (screens && !is_large_enough(narrow)) continue;
      const Steps result = narrow == type_of_results() ? Steps{kResult} : Steps{0};
      for (const Steps set : sets) {
        if (((set & kSums) != 0 && result == 0) || (set | result) == 0) continue;
        auto found = try_out({narrow, set | result});
        if (!found) continue;
        const auto rank = [](const FoundReduction& r) { return std::pair(-r.fitting, std::popcount(r.steps)); };
        if (!best || rank(*found) < rank(*best)) {
          best = std::move(found);
        } else if (rank(*found) == rank(*best) && found->steps == best->steps) {
          best->alike.push_back(narrow);
        }
      }
    }
    return best;
  }

  std::optional<FoundReduction> try_out(const Reduction& reduction) {
    FoundReduction found{reduction, {reduction.narrow}, std::ssize(tried_)};
    std::set<double> counted;  // equal values, though the exact ones differ, have one origin and say it once
    for (const Tried& tried : tried_) {
      const Explanation explanation = explain_reduced(call_, side_, tried.id, reduction, cache_);
      if (explanation.explained()) {
        ++found.fitting;
        if (counted.insert(tried.value).second) found.chance_bits += chance_bits(tried, reduction, explanation);
      }
      const int64_t misfits = &tried - tried_.data() + 1 - found.fitting;
      if (misfits > 3 + found.fitting / 3) return std::nullopt;  // not worth going on
    }
    // There are fewer than tried^misfits ways to choose those that do not fit.
    const double ways = static_cast<double>(found.tried - found.fitting) * std::log2(static_cast<double>(found.tried));
    if (!is_nearly_all(found.fitting) || found.chance_bits < kEvidenceBits + ways) return std::nullopt;
    return found;
  }

  // How seldom an error of the size that this one has, but of other origin, would have fitted.
  double chance_bits(const Tried& tried, const Reduction& reduction, const Explanation& explanation) const {
    const Match& match = explanation.candidates[explanation.matches.front()];
    double bits = std::max(0.0, std::log2(std::abs(tried.value - tried.exact) / match.bound));
    const bool told_by_result = reduction.rounds(kResult) && round_to(reduction.narrow, tried.exact) != tried.exact;
    if (told_by_result) {
      bits += Precision::of(side_.of(gradient_).dtype).bits - significand_bits(reduction.narrow);
    }
    return bits;
  }

  const Call& call_;
  const Side& side_;
  Gradient gradient_;
  ContributionCache& cache_;
  int own_bits_ = 0;  // of the significand of the tensors' type
  std::vector<Tried> tried_;
};

}  // namespace

std::optional<FoundReduction> find_reduction(const Call& call, const Side& side, Gradient gradient,
                                             const std::vector<int64_t>& unexplained, ContributionCache& cache) {
  return Search(call, side, gradient, cache).find(unexplained);
}

}  // namespace msda::analysis
