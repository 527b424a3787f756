#include "analysis/judge/find_narrowing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "analysis/judge/detect_arithmetic.h"
#include "analysis/model/explain.h"

namespace msda::analysis {
namespace {

// Elements that are tried, and how few of them say nothing.
constexpr size_t kMostTried = 96, kFewestTried = 8;
// Results that have room for so many more bits than a narrow type, and how few of them say nothing about it.
constexpr int kFewestFreeBits = 4, kFewestDeciding = 4;
constexpr int64_t kMostLookedAt = 1024;
// Bits of evidence with which none of over a thousand narrowings passes by chance more than once in 2^50 captures.
constexpr double kEvidenceBits = 64;

// Returns the families of some of the elements: one where finding them takes long.
std::vector<int64_t> families_of(const Call& call, Gradient gradient, const std::vector<int64_t>& elements) {
  constexpr int64_t kMostFamilies = 4, kMostSamples = 100'000;
  const int64_t most =
      std::clamp<int64_t>(kMostSamples / std::max<int64_t>(1, call.samples_of_family()), 1, kMostFamilies);
  std::set<int64_t> families;
  const auto count = std::ssize(elements);
  for (int64_t i = 0; i < most && i < count; ++i) {
    families.insert(call.family_of(gradient, elements[static_cast<size_t>(i * count / most)]));
  }
  return {families.begin(), families.end()};
}

// Returns all sets of some steps, smaller ones first.
std::vector<Steps> subsets_of(Steps some) {
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
  Search(const Call& call, const Side& side, Gradient gradient, Cache& cache)
      : call_(call), side_(side), gradient_(gradient), cache_(cache) {
    for (const NamedTensor& input : call.inputs()) {
      own_bits_ = std::max(own_bits_, Precision::of(input.tensor.dtype).bits);
    }
  }

  std::optional<FoundNarrowing> find(const std::vector<int64_t>& unexplained) {
    collect(unexplained, kMostTried, kMostLookedAt);
    if (tried_.size() < kFewestTried) return std::nullopt;
    const Steps inputs = call_.input_steps(gradient_), inner = call_.inner_steps(gradient_);
    if (auto found = best_of(subsets_of(inputs | inner), /*screens=*/true)) return found;
    // Everything was cast. Rounded locations take longest: all samples land anew.
    std::vector<Steps> cast = subsets_of(inner);
    for (Steps& set : cast) set |= inputs | kLocations;
    if (auto found = best_of(cast, /*screens=*/false)) return found;
    // Sums in the type itself come last, because they hide more than any other narrowing. It takes more elements to see
    // whether the values are such sums.
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
    double magnitude;  // of its addends: the sum of their absolute values
  };

  // Fills tried_, looking at so many elements.
  void collect(const std::vector<int64_t>& unexplained, size_t most_tried, int64_t most_looked_at) {
    constexpr int64_t kFewestAddends = 3;  // one or two have one sum in any type
    tried_.clear();
    std::vector<Tried> of_few_addends;
    const auto families = families_of(call_, gradient_, unexplained);
    std::map<int64_t, int64_t> of_weights;  // elements tried of those with the same weights
    for (const int64_t family : families) {
      const size_t room = most_tried / families.size() + tried_.size();
      for (const int64_t flat : call_.some_of_family(gradient_, family, most_looked_at / std::ssize(families))) {
        if (tried_.size() >= room) break;
        const double value = side_.of(gradient_).at(flat);
        if (!std::isfinite(value)) continue;
        const ElementId id = call_.element_id(gradient_, flat);
        const Explanation explanation = explain(call_, side_, id, cache_);
        const Element& exact = explanation.exact().element;
        if (explanation.explained() || !std::isfinite(exact.value)) continue;
        // A pixel's channels share the roundings of all but grad_output, so at most as many channels count as it has
        // addends.
        if (gradient_.scattered() && of_weights[call_.weights_of(gradient_, flat)]++ >= exact.terms) continue;
        (exact.terms < kFewestAddends ? of_few_addends : tried_).push_back({id, value, exact.value, exact.cancelled});
      }
    }
    if (tried_.size() >= kFewestTried) return;
    const size_t room = std::min(of_few_addends.size(), most_tried - tried_.size());
    std::copy_n(of_few_addends.begin(), room, std::back_inserter(tried_));
  }

  // Returns whether the values lie to both sides of sums in the type, and about as far from the exact ones as such sums
  // do: the bound on sums in few bits is so wide that other values fit it too.
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

  int free_bits(Narrow narrow, const Tried& tried) const {
    const int stored = std::min(own_bits_, Precision::of(side_.of(gradient_).dtype).bits);
    return analysis::free_bits(narrow, stored, tried.value, tried.magnitude);
  }
  bool shows_type(Narrow narrow, const Tried& tried) const { return free_bits(narrow, tried) >= kFewestFreeBits; }

  // Returns the type of the fewest bits that nearly all results are numbers of.
  std::optional<Narrow> type_of_results() const {
    for (const Narrow narrow : {Narrow::kBFloat16, Narrow::kFloat16, Narrow::kFloat32}) {
      if (significand_bits(narrow) >= own_bits_) continue;
      int64_t deciding = 0, such = 0;
      for (const Tried& tried : tried_) {
        if (!shows_type(narrow, tried)) continue;
        ++deciding;
        such += round_to(narrow, tried.value) == tried.value;
      }
      if (deciding >= kFewestDeciding && 4 * such >= 3 * deciding) return narrow;
    }
    return std::nullopt;
  }
  bool is_nearly_all(int64_t fitting) const { return 4 * fitting >= 3 * std::ssize(tried_); }

  // Returns whether nearly all errors are small enough for rounding of any steps but the locations.
  bool is_large_enough(Narrow narrow) const {
    const auto within = std::ranges::count_if(tried_, [&](const Tried& tried) {
      const Explanation any = explain_reduced(call_, side_, tried.id, {narrow, kSums}, cache_);
      const Match& exact = any.exact();
      return any.explained() || exact.residual <= exact.element.from_coordinates + exact.element.certain;
    });
    return is_nearly_all(within);
  }

  // Returns the narrowing with one of these sets of steps that explains most; of those the one with the fewest steps.
  std::optional<FoundNarrowing> best_of(const std::vector<Steps>& sets, bool screens) {
    std::optional<FoundNarrowing> best;
    const std::optional<Narrow> of_results = type_of_results();
    for (const Narrow narrow : kNarrowings) {
      if (significand_bits(narrow) >= own_bits_) continue;
      if (screens && !is_large_enough(narrow)) continue;
      const bool is_type = of_results && type_name(narrow) == std::string(type_name(*of_results));
      const Steps result = is_type ? Steps{kResult} : Steps{0};
      for (const Steps set : sets) {
        if (((set & kSums) != 0 && result == 0) || (set | result) == 0) continue;
        if (result != 0 && narrow != *of_results && set != 0) continue;  // truncated after other steps: hides sums
        auto found = try_out({narrow, set | result});
        if (!found) continue;
        const auto rank = [](const FoundNarrowing& r) { return std::pair(-r.fitting, std::popcount(r.steps)); };
        if (!best || rank(*found) < rank(*best)) {
          best = std::move(found);
        } else if (rank(*found) == rank(*best) && found->steps == best->steps) {
          best->alike.push_back(narrow);
        }
      }
    }
    return best;
  }

  std::optional<FoundNarrowing> try_out(const Narrowing& narrowing) {
    FoundNarrowing found{narrowing, {narrowing.narrow}, std::ssize(tried_)};
    // Equal values, though the exact ones differ, have one origin and say it once, and so have relative errors that
    // are equal: a factor. 0 says nothing: it is a number of every type.
    std::set<double> counted{0};
    std::set<int64_t> factors;
    for (const Tried& tried : tried_) {
      const Explanation explanation = explain_reduced(call_, side_, tried.id, narrowing, cache_);
      if (explanation.explained()) {
        ++found.fitting;
        const Match& match = explanation.candidates[explanation.matches.front()];
        const double origin = std::abs(match.element.value) <= match.bound ? 0 : tried.value;
        const bool is_new = factors.insert(factor_of(tried)).second;
        if (counted.insert(origin).second && is_new) found.chance_bits += chance_bits(tried, narrowing, match);
      }
      const int64_t misfits = &tried - tried_.data() + 1 - found.fitting;
      if (misfits > 3 + found.fitting / 3) return std::nullopt;  // not worth going on
    }
    // There are fewer than tried^misfits ways to choose those that do not fit.
    const double ways = static_cast<double>(found.tried - found.fitting) * std::log2(static_cast<double>(found.tried));
    if (!is_nearly_all(found.fitting) || found.chance_bits < kEvidenceBits + ways) return std::nullopt;
    return found;
  }

  // Returns the relative error with its sign, to a hundredth of itself.
  static int64_t factor_of(const Tried& tried) {
    constexpr double kHundredths = 100;
    const double error = tried.exact != 0 ? (tried.value - tried.exact) / tried.exact : 0;
    if (error == 0 || !std::isfinite(error)) return 0;
    const int64_t size = std::llround(kHundredths * std::log(std::abs(error)));
    return 2 * size + (error < 0 ? 1 : 0);
  }

  // Returns how seldom an error of the size that this one has, but of other origin, would have fitted.
  double chance_bits(const Tried& tried, const Narrowing& narrowing, const Match& match) const {
    double bits = std::max(0.0, std::log2(std::abs(tried.value - tried.exact) / match.bound));
    const bool rounds_result = narrowing.rounds(kResult) && round_to(narrowing.narrow, tried.exact) != tried.exact;
    if (rounds_result) bits += free_bits(narrowing.narrow, tried);
    return bits;
  }

  const Call& call_;
  const Side& side_;
  Gradient gradient_;
  Cache& cache_;
  int own_bits_ = 0;  // of the significand of the tensors' type
  std::vector<Tried> tried_;
};

}  // namespace

std::optional<FoundNarrowing> find_narrowing(const Call& call, const Side& side, Gradient gradient,
                                             const std::vector<int64_t>& unexplained, Cache& cache) {
  return Search(call, side, gradient, cache).find(unexplained);
}

}  // namespace msda::analysis
