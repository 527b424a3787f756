#include "analysis/judge/analyze.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/judge/detect_arithmetic.h"
#include "analysis/judge/examine.h"
#include "analysis/judge/find_narrowing.h"
#include "analysis/judge/fits.h"
#include "analysis/judge/order_certificates.h"
#include "analysis/judge/verdict.h"

namespace msda::analysis {
namespace {

// Sets of elements with the same judgement, the gravest first.
std::vector<JudgedElements> sets_of(const std::vector<Judgement>& judgements, Gradient gradient, const Side& expected,
                                    bool advisory) {
  std::map<std::pair<AtFault, Cause>, JudgedElements> sets;
  for (const auto& [flat, cause, at_fault, chance_bits, only_16_bits] : judgements) {
    JudgedElements& set = sets[{at_fault, cause}];
    ++set.elements;
    if (!set.runs.empty() && set.runs.back().flat + set.runs.back().count == flat) {
      ++set.runs.back().count;
    } else {
      set.runs.push_back({flat, 1});
    }
  }
  std::vector<JudgedElements> result;
  for (auto& [key, set] : sets) {
    set.gradient = gradient;
    set.against = expected.name;
    set.advisory = advisory;
    std::tie(set.at_fault, set.cause) = key;
    result.push_back(std::move(set));
  }
  return result;
}

// Leaves those of the mistakes that the other one's values fit as well.
void keep_common_mistakes(Evidence& evidence, const Evidence& added) {
  if (!evidence.contains("as_if")) return;
  Evidence common = Evidence::array();
  for (const auto& text : evidence["as_if"]) {
    if (added.contains("as_if") && std::ranges::find(added["as_if"], text) != added["as_if"].end()) {
      common.push_back(text);
    }
  }
  evidence["as_if"] = common;
}

std::vector<Finding> join_runs(std::vector<Finding> findings) {
  std::vector<Finding> runs;
  for (Finding& finding : findings) {
    Finding* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->flat + last->count == finding.flat && last->cause == finding.cause &&
        last->at_fault == finding.at_fault) {
      ++last->count;
      keep_common_mistakes(last->evidence, finding.evidence);
    } else {
      runs.push_back(std::move(finding));
    }
  }
  return runs;
}

// Returns whether values that are wrong for other reasons fit what the buffer held as often. In types of 16 bits single
// ones do; so many of all those that are wrong do not.
bool fit_by_chance(const std::vector<Judgement>& judgements) {
  constexpr double kEvidenceBits = 20;  // once in a million gradients
  double bits = 0, fitting = 0, wrong = 0;
  for (const Judgement& judgement : judgements) {
    const bool fits = judgement.cause == Cause::kUninitializedOutput;
    bits += judgement.chance_bits;
    fitting += fits;
    wrong += fits || judgement.cause == Cause::kImplementationError;
  }
  const double ways = std::lgamma(wrong + 1) - std::lgamma(fitting + 1) - std::lgamma(wrong - fitting + 1);
  return fitting > 0 && bits < kEvidenceBits + ways / std::numbers::ln2;
}

// Returns the mean magnitude of the elements that are neither zero nor infinite; 0 if there are none, or no tensor.
double mean_magnitude(const Tensor& tensor) {
  if (!tensor) return 0;
  double sum = 0, count = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double magnitude = std::abs(tensor.at(i));
    if (magnitude == 0 || !std::isfinite(magnitude)) continue;
    sum += magnitude;
    ++count;
  }
  return count > 0 && std::isfinite(sum) ? sum / count : 0;
}

// Returns whether all elements are 0, as they are of a tensor that is missing.
bool is_zero(const Tensor& tensor) {
  for (int64_t i = 0; tensor && i < tensor.elements(); ++i) {
    if (tensor.at(i) != 0) return false;
  }
  return true;
}

class Analysis {
 public:
  Analysis(const Material& material, const Settings& settings)
      : material_(material),
        settings_(settings),
        recorded_(material.recorded),
        reference_(material.reference),
        examiner_(material, settings, recorded_, reference_, leftovers_, by_chance_) {
    const auto cache = call().new_cache();
    for (const Gradient gradient : call().gradients()) {
      const auto at = gradient.place();
      recorded_.arithmetic[at] = detect_arithmetic(call(), recorded_, gradient, *cache);
      if (reference_) reference_->arithmetic[at] = detect_arithmetic(call(), *reference_, gradient, *cache);
      if (!settings.tolerance) mean_[at] = mean_magnitude(recorded_.of(gradient));
    }
    report_.verdict.tolerance_given = settings.tolerance.has_value();
  }

  Report run() {
    if (reference_) examine(*reference_, NonFinite::kAsTorch, false);
    examine(material_.float64, NonFinite::kMismatch, false);
    for (const Side& side : material_.replays) {
      if (side.is_replay_beside()) examine(side, NonFinite::kAsTorch, true);
    }
    for (const Side& side : material_.replays) {
      if (side.is_replay_beside()) continue;
      state(recorded_, side);
      state(side, material_.float64);
    }
    if (reference_) state(*reference_, material_.float64);
    add_certificates(material_, settings_.threads, report_.findings);
    report_.groups = group_elements(report_.judged);
    describe_groups(material_, report_.findings, report_.groups);
    find_biases();
    report_.verdict = judge(call(), report_.groups, reference_.has_value(), report_.verdict);
    doubt_conventions();
    std::ranges::stable_sort(report_.groups, {}, [&](const Group& group) {
      return std::tuple(group.advisory, group.at_fault != report_.verdict.at_fault, !is_mistake(group.cause),
                        -group.elements);
    });
    return std::move(report_);
  }

 private:
  const Call& call() const { return *material_.call; }

  // Adds a comparison to the report and returns its mismatches, which the report does not keep.
  std::vector<int64_t> add_comparison(const Side& observed, const Side& expected, Gradient gradient,
                                      const Tolerance& tolerance, NonFinite policy, int64_t most) {
    const Tensor &o = observed.of(gradient), &e = expected.of(gradient);
    Comparison comparison = compare(o, e, tolerance, policy, most, settings_.threads);
    std::vector<int64_t> mismatches = std::exchange(comparison.mismatches, {});
    Index worst = comparison.worst >= 0 ? o.index_of(comparison.worst) : Index{};
    report_.comparisons.push_back({observed.name, expected.name, gradient, std::move(comparison), std::move(worst)});
    return mismatches;
  }

  // Adds a comparison for the table only.
  void state(const Side& observed, const Side& expected) {
    for (const Gradient gradient : call().gradients()) {
      if (observed.of(gradient) && expected.of(gradient)) {
        add_comparison(observed, expected, gradient, examiner_.tolerance_of(gradient), NonFinite::kAsTorch, 0);
      }
    }
  }

  // Elements that are farther apart are examined: all that miss a tolerance. Where nobody set one, all whose difference
  // is more than one rounding of themselves, which every bound allows, and than four millionths of the gradient's mean
  // magnitude (in float32): sums of many addends are off by about as much, and to examine them all takes minutes.
  Tolerance examined_beyond(Gradient gradient) const {
    const Tolerance customary = examiner_.tolerance_of(gradient);
    if (settings_.tolerance || settings_.customary) return customary;
    const msda_dtype stored = recorded_.of(gradient).dtype;
    const double least = 64 * Precision::of(arithmetic_of(stored)).unit * mean_[gradient.place()];
    return {std::min(customary.atol, least), Precision::of(stored).unit};
  }

  // Counts an element once, whatever it was compared with.
  void count_16_bits(Gradient gradient, const std::vector<Judgement>& judgements) {
    std::set<int64_t>& counted = only_16_bits_[gradient.place()];
    for (const Judgement& judgement : judgements) {
      if (judgement.only_16_bits) report_.verdict.explained_by_16_bits += counted.insert(judgement.flat).second;
    }
  }

  // If nobody set a tolerance, drops elements that rounding explains, and those within the customary tolerance that no
  // kernel got wrong. Returns how many.
  int64_t forgive(const Side& expected, Gradient gradient, bool advisory, std::vector<Judgement>& judgements) {
    const Tolerance customary = examiner_.tolerance_of(gradient);
    const auto is_customary = [&](const Judgement& judgement) {
      return customary.holds(recorded_.of(gradient).at(judgement.flat), expected.of(gradient).at(judgement.flat));
    };
    const auto forgiven = [&](const Judgement& judgement) {
      const bool within = is_customary(judgement);
      if (!advisory && is_rounding(judgement.cause) && !within) ++report_.verdict.explained_by_rounding;
      if (!advisory && is_mistake(judgement.cause) && within) ++report_.verdict.within_customary;
      return is_rounding(judgement.cause) || (within && !is_mistake(judgement.cause));
    };
    return static_cast<int64_t>(std::erase_if(judgements, forgiven));
  }

  // Compares the recorded side with another, and finds the cause of each element out of tolerance.
  void examine(const Side& expected, NonFinite policy, bool advisory) {
    for (const Gradient gradient : call().gradients()) {
      if (!recorded_.of(gradient) || !expected.of(gradient)) continue;
      const std::vector<int64_t> mismatches = add_comparison(recorded_, expected, gradient, examined_beyond(gradient),
                                                             policy, std::numeric_limits<int64_t>::max());
      std::vector<Judgement> judgements = judge_beside_buffer(expected, gradient, mismatches);
      reconsider(expected, gradient, judgements);
      if (!advisory) count_16_bits(gradient, judgements);
      if (!settings_.tolerance) {
        report_.comparisons.back().comparison.mismatched -= forgive(expected, gradient, advisory, judgements);
      }
      auto sets = sets_of(judgements, gradient, expected, advisory);
      describe(expected, sets);
      std::ranges::move(sets, std::back_inserter(report_.judged));
    }
  }

  // In gradients in which the recorded side made no mistakes: these lean as well.
  void find_biases() {
    const auto control = std::ranges::find_if(material_.replays, &Side::is_deterministic);
    if (control == material_.replays.end()) return;
    for (const Gradient gradient : call().gradients()) {
      const auto is_wrong = [&](const Group& group) {
        return !group.advisory && group.gradient == gradient && is_mistake(group.cause) &&
               (group.at_fault == AtFault::kObserved || group.at_fault == AtFault::kConvention);
      };
      if (!recorded_.of(gradient) || std::ranges::any_of(report_.groups, is_wrong)) continue;
      if (auto bias = find_bias(material_, recorded_, *control, gradient)) {
        report_.verdict.biases += " " + text_of(*bias);
        report_.biases.push_back(*bias);
      }
    }
  }

  // Judges by what the output buffer held, unless chance makes as many values fit that.
  std::vector<Judgement> judge_beside_buffer(const Side& expected, Gradient gradient,
                                             const std::vector<int64_t>& elements) {
    bool& by_chance = by_chance_[gradient.place()] = false;
    std::vector<Judgement> judgements = examiner_.judge(expected, gradient, elements);
    by_chance = is_16_bits(recorded_.of(gradient).dtype) && fit_by_chance(judgements);
    return by_chance ? examiner_.judge(expected, gradient, elements) : judgements;
  }

  // Returns whether the gradient shows which conventions a side used. A single wrong sample reaches many elements of a
  // scattered gradient, so such a gradient counts only if all others are 0, as where samples read the nearest pixel.
  bool shows_conventions(Gradient gradient) const {
    if (!gradient.scattered()) return true;
    if (!scattered_alone_shows_) {  // all elements are read: once
      scattered_alone_shows_ = std::ranges::all_of(call().gradients(), [this](Gradient beside) {
        return beside.scattered() || (is_zero(material_.float64.of(beside)) && is_zero(recorded_.of(beside)));
      });
    }
    return *scattered_alone_shows_;
  }

  // Returns elements of the recorded side against another one that are out of tolerance; -1 if they were not compared.
  int64_t mismatches(const char* expected) const {
    int64_t count = -1;
    for (const NamedComparison& comparison : report_.comparisons) {
      if (comparison.observed != recorded_.name || comparison.expected != expected ||
          !shows_conventions(comparison.gradient))
        continue;
      count = std::max<int64_t>(count, 0) + comparison.comparison.mismatched;
    }
    return count;
  }

  // Within which other conventions must give what was recorded: small gradients would fit any within the customary one.
  Tolerance tolerance_of_fits() const {
    const Tolerance customary = customary_tolerance(recorded_.of(call().gradients().back()).dtype);
    if (settings_.tolerance) {
      return {std::max(customary.atol, settings_.tolerance->atol), std::max(customary.rtol, settings_.tolerance->rtol)};
    }
    double least = INFINITY;
    for (const Gradient gradient : call().gradients()) {
      if (const double mean = mean_[gradient.place()]; mean > 0) least = std::min(least, mean);
    }
    return {std::min(customary.atol, customary.rtol * 0.1 * least), customary.rtol};
  }

  // If the recorded side and the reference agree, and float64 does not, or if float64 misses much of what was recorded,
  // the conventions that the capture names are doubtful.
  void doubt_conventions() {
    const auto is_doubtful = [this](const Group& group) {
      return !group.advisory && group.cause == Cause::kImplementationError && group.at_fault == AtFault::kObserved &&
             shows_conventions(group.gradient);
    };
    int64_t wrong = 0, all = 0;
    for (const Group& group : report_.groups) {
      if (!is_doubtful(group)) continue;
      wrong += group.elements;
      all += recorded_.of(group.gradient).elements();
    }
    const int64_t apart = mismatches("reference");
    const bool agree = reference_ && apart >= 0 && wrong > 0 && 10 * apart <= wrong;
    if (wrong == 0 || (!agree && 100 * wrong < all)) return;
    report_.fits = fitting_alternatives(call(), recorded_, report_.groups, tolerance_of_fits());
    if (agree && !report_.fits.empty()) charge_conventions();
    const bool of_samples = !call().gradients().back().scattered();
    doubt(report_.verdict, report_.fits, agree, of_samples);
  }

  // No side is wrong whose gradients fit the conventions that it follows.
  void charge_conventions() {
    const auto recharge = [](auto& item) {
      const bool mistaken = !item.advisory && item.cause == Cause::kImplementationError;
      if (mistaken && item.at_fault == AtFault::kObserved) item.at_fault = AtFault::kConvention;
    };
    std::ranges::for_each(report_.judged, recharge);
    std::ranges::for_each(report_.findings, recharge);
    std::ranges::for_each(report_.groups, recharge);
    report_.verdict = judge(call(), report_.groups, reference_.has_value(), report_.verdict);
  }

  // Judges anew what no arithmetic in the tensors' type explains, if a side turns out to have less precision or the
  // output buffer to have held an earlier result.
  void reconsider(const Side& expected, Gradient gradient, std::vector<Judgement>& judgements) {
    std::vector<int64_t> unexplained;
    bool added = false;  // to what the buffer is known to have held
    for (const Judgement& judgement : judgements) {
      if (judgement.cause == Cause::kImplementationError) unexplained.push_back(judgement.flat);
      added = added || judgement.cause == Cause::kUninitializedOutput;
    }
    if (added) search_leftover(gradient);
    if (unexplained.empty()) return;
    bool found = search_narrowing(recorded_, gradient, unexplained);
    if (reference_ && &expected == &*reference_) found = search_narrowing(*reference_, gradient, unexplained) || found;
    if (!material_.before[gradient.place()]) found = search_leftover(gradient) || found;
    if (!found) return;
    // A value that rounding explains, too, may be what the narrowing makes of it.
    const auto is_open = [](const Judgement& judgement) {
      return judgement.cause == Cause::kImplementationError || is_rounding(judgement.cause);
    };
    std::vector<int64_t> open;
    for (const Judgement& judgement : judgements) {
      if (is_open(judgement)) open.push_back(judgement.flat);
    }
    const std::vector<Judgement> anew = examiner_.judge(expected, gradient, open);
    size_t next = 0;
    for (Judgement& judgement : judgements) {
      if (is_open(judgement)) judgement = anew[next++];
    }
  }

  // Once for each gradient. Whether the buffer held an earlier result.
  bool search_leftover(Gradient gradient) {
    const auto at = gradient.place();
    if (!searched_leftover_[at]) {
      leftovers_[at] = find_leftover(material_, recorded_, gradient, *call().new_cache());
    }
    searched_leftover_[at] = true;
    return leftovers_[at].has_value();
  }

  // Once for each side and gradient. Whether the side has one.
  bool search_narrowing(Side& side, Gradient gradient, const std::vector<int64_t>& unexplained) {
    const auto at = gradient.place();
    bool& searched = searched_[&side == &recorded_ ? 0 : 1][at];
    if (!searched) {
      side.narrowing[at] = find_narrowing(call(), side, gradient, unexplained, *call().new_cache());
    }
    searched = true;
    return side.narrowing[at].has_value();
  }

  void describe(const Side& expected, const std::vector<JudgedElements>& sets) {
    std::vector<Finding> findings;
    for (const JudgedElements& set : sets) {
      for (Finding& finding : examiner_.describe(expected, set.gradient, choose(set, expected))) {
        finding.advisory = set.advisory;
        findings.push_back(std::move(finding));
      }
    }
    std::ranges::sort(findings, {}, &Finding::flat);
    if (static_cast<int64_t>(findings.size()) > kMostSingle) findings = join_runs(std::move(findings));
    std::ranges::move(findings, std::back_inserter(report_.findings));
  }

  // Returns the elements of a set that become findings, in ascending order.
  std::vector<int64_t> choose(const JudgedElements& set, const Side& expected) const {
    std::vector<int64_t> all;
    all.reserve(static_cast<size_t>(set.elements));
    for (const auto& [flat, count] : set.runs) {
      for (int64_t i = 0; i < count; ++i) all.push_back(flat + i);
    }
    const int64_t most = most_described(set), worst = most / 2;
    if (set.elements <= most) return all;
    const Tolerance tolerance = examiner_.tolerance_of(set.gradient);
    const auto excess = [&](int64_t flat) {
      const double o = recorded_.of(set.gradient).at(flat), e = expected.of(set.gradient).at(flat);
      const double ratio = std::abs(o - e) / (tolerance.atol + tolerance.rtol * std::abs(e));
      return std::isnan(ratio) ? INFINITY : ratio;
    };
    std::vector<std::pair<double, int64_t>> ranked;
    ranked.reserve(all.size());
    for (const int64_t flat : all) ranked.push_back({-excess(flat), flat});
    std::ranges::nth_element(ranked, ranked.begin() + worst);
    std::ranges::sort(ranked.begin() + worst, ranked.end(), {}, &std::pair<double, int64_t>::second);
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < worst; ++i) chosen.push_back(ranked[static_cast<size_t>(i)].second);
    const int64_t rest = set.elements - worst, wanted = most - worst;
    for (int64_t i = 0; i < wanted; ++i) {
      chosen.push_back(ranked[static_cast<size_t>(worst + i * rest / wanted)].second);
    }
    std::ranges::sort(chosen);
    return chosen;
  }

  const Material& material_;
  const Settings& settings_;
  Side recorded_;
  std::optional<Side> reference_;
  Leftovers leftovers_;
  Chances by_chance_{};
  Examiner examiner_;
  Report report_;
  mutable std::optional<bool> scattered_alone_shows_;
  double mean_[kMostGradients] = {};  // magnitude of the recorded gradients, where nobody set a tolerance
  std::set<int64_t> only_16_bits_[kMostGradients];
  bool searched_[2][kMostGradients] = {};  // for a narrowing: the recorded side and the reference, by gradient
  bool searched_leftover_[kMostGradients] = {};
};

}  // namespace

Report analyze(const Material& material, const Settings& settings) { return Analysis(material, settings).run(); }

}  // namespace msda::analysis
