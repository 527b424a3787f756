#include "analysis/judge/examine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// Elements of one family, which need the same of the cache: [begin, end) of an order of elements.
struct Task {
  size_t begin, end;
};

// Returns the elements' places, ordered so that a family's are adjacent.
std::vector<size_t> grouped(const Call& call, Gradient gradient, const std::vector<int64_t>& elements,
                            std::vector<Task>& tasks) {
  constexpr size_t kMostOfATask = 4096;
  std::vector<int64_t> groups(elements.size());
  std::ranges::transform(elements, groups.begin(), [&](int64_t flat) { return call.family_of(gradient, flat); });
  std::vector<size_t> order(elements.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Where there is one family, nothing moves: most operators have no other.
  if (!std::ranges::is_sorted(groups)) std::ranges::stable_sort(order, {}, [&](size_t i) { return groups[i]; });
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && end - begin < kMostOfATask && groups[order[end]] == groups[order[begin]]) ++end;
    tasks.push_back({begin, end});
    begin = end;
  }
  return order;
}

}  // namespace

Tolerance Examiner::tolerance_of(Gradient gradient) const {
  return settings_.tolerance ? *settings_.tolerance : customary_tolerance(recorded_.of(gradient).dtype);
}

template <class Visit>
void Examiner::for_each(Gradient gradient, const std::vector<int64_t>& elements, Visit&& visit) const {
  std::vector<Task> tasks;
  const std::vector<size_t> order = grouped(*material_.call, gradient, elements, tasks);
  const auto count = static_cast<int64_t>(tasks.size());
  const int threads = kernels::thread_count(settings_.threads, count);
  const auto cache = material_.call->new_cache();
  kernels::parallel_for(count, threads, [&](int64_t number, int) {
    const Task& task = tasks[static_cast<size_t>(number)];
    for (size_t i = task.begin; i < task.end; ++i) visit(order[i], *cache);
  });
}

std::vector<Judgement> Examiner::judge(const Side& expected, Gradient gradient,
                                       const std::vector<int64_t>& elements) const {
  std::vector<Judgement> judgements(elements.size());
  const bool few_bits = is_16_bits(recorded_.of(gradient).dtype);
  const Tolerance tolerance = tolerance_of(gradient);
  for_each(gradient, elements, [&](size_t i, Cache& cache) {
    const ElementId id = material_.call->element_id(gradient, elements[i]);
    Explanation of_observed = explain_best(*material_.call, recorded_, id, cache);
    if (is_forgiven(expected, id, of_observed)) {
      judgements[i] = {elements[i], Cause::kRounding, AtFault::kNone};
      return;
    }
    const Suspect element = suspect(expected, id, std::move(of_observed), cache, /*wants_reasons=*/false);
    const Diagnosis diagnosis = diagnose(element);
    const bool may_be_chance = few_bits && diagnosis.cause == Cause::kUninitializedOutput;
    judgements[i] = {elements[i], diagnosis.cause, diagnosis.at_fault,
                     may_be_chance ? chance_bits_of_buffer(element) : 0,
                     is_rounding(diagnosis.cause) && !tolerance.holds(element.observed_value, element.expected_value) &&
                         only_16_bits_explain(element)};
  });
  return judgements;
}

std::vector<Finding> Examiner::describe(const Side& expected, Gradient gradient,
                                        const std::vector<int64_t>& elements) const {
  std::vector<Finding> findings(elements.size());
  for_each(gradient, elements, [&](size_t i, Cache& cache) {
    findings[i] = describe_element(expected, material_.call->element_id(gradient, elements[i]), cache);
  });
  return findings;
}

std::optional<double> Examiner::before_of(const ElementId& id) const {
  const auto at = id.gradient.place();
  const auto& leftover = leftovers_[at];
  const Tensor before = leftover                           ? leftover->contents
                        : material_.call->adds_to_output() ? Tensor{}
                                                           : material_.before[at];
  if (!before) return std::nullopt;
  const double value = before.at(id.flat);
  // No chance makes a number of what is none.
  return by_chance_[at] && std::isfinite(value) ? std::nullopt : std::optional(value);
}

// Most elements that are examined without a tolerance differ by rounding. This is known before the expected side is
// explained, and it does not matter which kind of rounding it is, where no other cause can be found: nothing was in the
// buffer, samples have no cells to land in, and the addends are too few for a sum to stop growing.
bool Examiner::is_forgiven(const Side& expected, const ElementId& id, const Explanation& of_observed) const {
  constexpr int64_t kFew = 1000;
  if (settings_.tolerance || &expected != &material_.float64 || is_16_bits(recorded_.of(id.gradient).dtype))
    return false;
  if (!of_observed.explained() || of_observed.reduced || !std::isfinite(of_observed.value)) return false;
  const Match& exact = of_observed.exact();
  return exact.element.terms < kFew && exact.element.value == expected.of(id.gradient).at(id.flat) &&
         before_of(id).value_or(0) == 0 && material_.call->axes(id).empty();
}

Suspect Examiner::suspect(const Side& expected, const ElementId& id, Explanation of_observed, Cache& cache,
                          bool wants_reasons) const {
  const Gradient gradient = id.gradient;
  const Tolerance tolerance = tolerance_of(gradient);
  const double truth = material_.float64.of(gradient).at(id.flat);
  const auto holds = [&](const Side& side) {
    return side.of(gradient) && tolerance.holds(side.of(gradient).at(id.flat), truth);
  };
  bool any = holds(recorded_) || (reference_ && holds(*reference_));
  // Not from a replay with a random order: findings must not depend on chance or on the device.
  for (const Side& side : material_.replays) {
    if (!side.is_replay("atomic") && !side.is_replay("original")) any = any || holds(side);
  }
  const auto& leftover = leftovers_[gradient.place()];
  return {*material_.call,
          id,
          recorded_,
          expected,
          &expected == &material_.float64,
          recorded_.of(gradient).at(id.flat),
          expected.of(gradient).at(id.flat),
          truth,
          before_of(id),
          std::move(of_observed),
          explain_best(*material_.call, expected, id, cache),
          holds(recorded_),
          holds(expected),
          any,
          tolerance,
          cache,
          wants_reasons,
          leftover ? &*leftover : nullptr};
}

Finding Examiner::describe_element(const Side& expected, const ElementId& id, Cache& cache) const {
  Finding finding;
  static_cast<Diagnosis&>(finding) = diagnose(
      suspect(expected, id, explain_best(*material_.call, recorded_, id, cache), cache, /*wants_reasons=*/true));
  finding.gradient = id.gradient;
  finding.flat = id.flat;
  finding.index = id.index;
  finding.observed = recorded_.of(id.gradient).at(id.flat);
  finding.expected = expected.of(id.gradient).at(id.flat);
  finding.float64 = material_.float64.of(id.gradient).at(id.flat);
  finding.against = expected.name;
  return finding;
}

}  // namespace msda::analysis
