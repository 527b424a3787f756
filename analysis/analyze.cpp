#include "analysis/analyze.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analysis/causes/causes.h"
#include "analysis/verdict.h"

namespace msda::analysis {
namespace {

// A kernel on 16-bit tensors computes in float32, or in the 16-bit type itself. Its own values tell: if nearly all of
// them are what float32 and one last rounding make, it is float32.
msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, ContributionCache& cache) {
  const Tensor& tensor = side.of(gradient);
  if (!tensor || (tensor.dtype != MSDA_FLOAT16 && tensor.dtype != MSDA_BFLOAT16)) return call.arithmetic();
  constexpr int64_t kSamples = 256;
  const int64_t total = tensor.elements(), step = std::max<int64_t>(1, total / kSamples);
  const auto share_explained = [&](msda_dtype arithmetic) {
    side.arithmetic[static_cast<int>(gradient)] = arithmetic;
    int64_t explained = 0, finite = 0;
    for (int64_t flat = 0; flat < total; flat += step) {
      if (!std::isfinite(tensor.at(flat))) continue;
      ++finite;
      explained += explain(call, side, element_id(call, gradient, flat), cache).explained();
    }
    return finite == 0 ? 1.0 : static_cast<double>(explained) / static_cast<double>(finite);
  };
  const double as_float32 = share_explained(MSDA_FLOAT32);
  if (as_float32 >= 0.9) return MSDA_FLOAT32;
  return share_explained(tensor.dtype) >= 0.9 ? tensor.dtype : MSDA_FLOAT32;
}

class Analysis {
 public:
  Analysis(const Material& material, const Settings& settings)
      : material_(material), settings_(settings), recorded_(material.recorded), cache_(material.call) {
    if (material.reference) reference_ = *material.reference;
    for (const Gradient gradient : kGradients) {
      const auto at = static_cast<size_t>(gradient);
      recorded_.arithmetic[at] = detect_arithmetic(material.call, recorded_, gradient, cache_);
      if (reference_) reference_->arithmetic[at] = detect_arithmetic(material.call, *reference_, gradient, cache_);
    }
  }

  Report run() {
    if (reference_) examine(*reference_, NonFinite::kAsTorch, false);
    examine(material_.float64, NonFinite::kMismatch, false);
    for (const Side& side : material_.replays) {
      if (side.name == "grid_sample" && recorded_.conventions.dialect != MSDA_GRID_SAMPLE) {
        examine(side, NonFinite::kAsTorch, true);
      }
    }
    for (const Side& side : material_.replays) {
      if (side.name == "grid_sample") continue;
      state(recorded_, side);
      state(side, material_.float64);
    }
    if (reference_) state(*reference_, material_.float64);
    report_.verdict = judge(report_.findings, reference_.has_value(), explained_by_rounding_, not_examined_);
    return std::move(report_);
  }

 private:
  Tolerance tolerance_of(Gradient gradient) const {
    return settings_.tolerance ? *settings_.tolerance : customary_tolerance(recorded_.of(gradient).dtype);
  }

  // Adds a comparison to the report and returns its mismatches, of which the report keeps none.
  std::vector<int64_t> add_comparison(const Side& observed, const Side& expected, Gradient gradient, NonFinite policy,
                                      int64_t most) {
    const Tensor &o = observed.of(gradient), &e = expected.of(gradient);
    Comparison comparison = compare(o, e, tolerance_of(gradient), policy, most, settings_.threads);
    std::vector<int64_t> mismatches = std::exchange(comparison.mismatches, {});
    Index worst = comparison.worst >= 0 ? o.index_of(comparison.worst) : Index{};
    report_.comparisons.push_back({observed.name, expected.name, gradient, std::move(comparison), std::move(worst)});
    return mismatches;
  }

  // A comparison for the table alone.
  void state(const Side& observed, const Side& expected) {
    for (const Gradient gradient : kGradients) {
      if (observed.of(gradient) && expected.of(gradient)) {
        add_comparison(observed, expected, gradient, NonFinite::kAsTorch, 0);
      }
    }
  }

  // The recorded side with another: the comparison, and a finding for each element out of tolerance.
  void examine(const Side& expected, NonFinite policy, bool advisory) {
    for (const Gradient gradient : kGradients) {
      if (!recorded_.of(gradient) || !expected.of(gradient)) continue;
      const std::vector<int64_t> mismatches =
          add_comparison(recorded_, expected, gradient, policy, std::numeric_limits<int64_t>::max());
      const std::vector<int64_t> chosen = choose(mismatches, expected, gradient);
      std::vector<Finding> findings;
      int64_t within_rounding = 0;
      for (const int64_t flat : chosen) {
        Finding finding = find(expected, gradient, flat, advisory);
        const bool rounding = finding.cause == Cause::kIllConditioned || finding.cause == Cause::kAccumulationOrder;
        if (!settings_.tolerance && rounding) {
          ++within_rounding;
          continue;
        }
        findings.push_back(std::move(finding));
      }
      if (!settings_.tolerance) report_.comparisons.back().comparison.mismatched -= within_rounding;
      if (!advisory) {
        explained_by_rounding_ += within_rounding;
        not_examined_ += static_cast<int64_t>(mismatches.size() - chosen.size());
      }
      if (static_cast<int64_t>(findings.size()) > kMostSingle) findings = join_runs(std::move(findings));
      std::ranges::move(findings, std::back_inserter(report_.findings));
    }
  }

  // The elements to examine, ascending.
  std::vector<int64_t> choose(const std::vector<int64_t>& mismatches, const Side& expected, Gradient gradient) const {
    const auto count = static_cast<int64_t>(mismatches.size());
    if (count <= kMostExamined) return mismatches;
    const Tolerance tolerance = tolerance_of(gradient);
    const auto excess = [&](int64_t flat) {
      const double o = recorded_.of(gradient).at(flat), e = expected.of(gradient).at(flat);
      const double ratio = std::abs(o - e) / (tolerance.atol + tolerance.rtol * std::abs(e));
      return std::isnan(ratio) ? INFINITY : ratio;
    };
    std::vector<std::pair<double, int64_t>> ranked;
    ranked.reserve(mismatches.size());
    for (const int64_t flat : mismatches) ranked.push_back({-excess(flat), flat});
    constexpr int64_t kWorst = kMostExamined / 2;
    std::ranges::nth_element(ranked, ranked.begin() + kWorst);
    std::ranges::sort(ranked.begin() + kWorst, ranked.end(), {}, &std::pair<double, int64_t>::second);
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < kWorst; ++i) chosen.push_back(ranked[static_cast<size_t>(i)].second);
    const int64_t rest = count - kWorst, wanted = kMostExamined - kWorst;
    for (int64_t i = 0; i < wanted; ++i)
      chosen.push_back(ranked[static_cast<size_t>(kWorst + i * rest / wanted)].second);
    std::ranges::sort(chosen);
    return chosen;
  }

  Finding find(const Side& expected, Gradient gradient, int64_t flat, bool advisory) {
    const Tolerance tolerance = tolerance_of(gradient);
    const ElementId id = element_id(material_.call, gradient, flat);
    const double observed_value = recorded_.of(gradient).at(flat), expected_value = expected.of(gradient).at(flat);
    const double truth = material_.float64.of(gradient).at(flat);
    const auto holds = [&](const Side& side) {
      return side.of(gradient) && tolerance.holds(side.of(gradient).at(flat), truth);
    };
    bool any = holds(recorded_) || (reference_ && holds(*reference_));
    // Not of an order left to chance: what is found must hang on no draw, and on no device that draws.
    for (const Side& side : material_.replays) {
      if (side.name != "atomic" && side.name != "original") any = any || holds(side);
    }
    const Tensor& before = material_.before[static_cast<size_t>(gradient)];
    const Suspect suspect{material_.call,
                          id,
                          recorded_,
                          expected,
                          &expected == &material_.float64,
                          observed_value,
                          expected_value,
                          truth,
                          before ? std::optional(before.at(flat)) : std::nullopt,
                          explain(material_.call, recorded_, id, cache_),
                          explain(material_.call, expected, id, cache_),
                          holds(recorded_),
                          holds(expected),
                          any,
                          tolerance,
                          cache_};
    Finding finding;
    static_cast<Diagnosis&>(finding) = diagnose(suspect);
    finding.gradient = gradient;
    finding.flat = flat;
    finding.index = id.index;
    finding.observed = observed_value;
    finding.expected = expected_value;
    finding.float64 = truth;
    finding.against = expected.name;
    finding.advisory = advisory;
    return finding;
  }

  static std::vector<Finding> join_runs(std::vector<Finding> findings) {
    std::vector<Finding> runs;
    for (Finding& finding : findings) {
      Finding* last = runs.empty() ? nullptr : &runs.back();
      if (last != nullptr && last->flat + last->count == finding.flat && last->cause == finding.cause &&
          last->at_fault == finding.at_fault) {
        ++last->count;
      } else {
        runs.push_back(std::move(finding));
      }
    }
    return runs;
  }

  const Material& material_;
  const Settings& settings_;
  Side recorded_;
  std::optional<Side> reference_;
  ContributionCache cache_;
  Report report_;
  int64_t explained_by_rounding_ = 0, not_examined_ = 0;
};

}  // namespace

Tolerance customary_tolerance(msda_dtype stored) {
  switch (stored) {
    case MSDA_FLOAT16:
      return {1e-2, 1e-2};
    case MSDA_BFLOAT16:
      return {5e-2, 5e-2};
    case MSDA_FLOAT64:
      return {1e-7, 1e-7};
    default:
      return {1e-3, 1e-2};
  }
}

Report analyze(const Material& material, const Settings& settings) { return Analysis(material, settings).run(); }

}  // namespace msda::analysis
