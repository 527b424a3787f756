#include "analysis/judge/groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/judge/analyze.h"
#include "analysis/judge/patterns.h"
#include "analysis/judge/scatter_patterns.h"
#include "analysis/model/hypotheses.h"

namespace msda::analysis {
namespace {

// Elements of one gradient that are in a group already.
class GroupedElements {
 public:
  // Returns the runs of those elements that are new.
  std::vector<ElementRun> add(const std::vector<ElementRun>& runs) {
    std::vector<ElementRun> added;
    for (const auto& [flat, count] : runs) {
      for (int64_t i = flat; i < flat + count; ++i) {
        if (std::ranges::binary_search(known_, i)) continue;
        recent_.push_back(i);
        if (!added.empty() && added.back().flat + added.back().count == i) {
          ++added.back().count;
        } else {
          added.push_back({i, 1});
        }
      }
    }
    return added;
  }
  // The sets that follow are of another comparison, in which the same elements may come again.
  void next_comparison() {
    std::ranges::sort(recent_);
    const auto middle = static_cast<std::ptrdiff_t>(known_.size());
    known_.insert(known_.end(), recent_.begin(), recent_.end());
    std::ranges::inplace_merge(known_, known_.begin() + middle);
    recent_.clear();
  }

 private:
  std::vector<int64_t> known_, recent_;
};

// How many elements only rounding moved, by the side that is at fault.
using Rounding = std::map<AtFault, int64_t>;

Rounding count_rounding(const std::vector<JudgedElements>& judged) {
  Rounding rounding;
  for (const JudgedElements& set : judged) {
    if (!set.advisory && is_rounding(set.cause)) rounding[set.at_fault] += set.elements;
  }
  return rounding;
}

// Returns who is at fault. A side that misses only by rounding, no more often than the others, is not wrong: the
// tolerance is tighter than the type can meet. A side is charged with rounding only if at least half of it is its own.
AtFault charged_with(const JudgedElements& set, const Rounding& rounding) {
  const bool a_side = set.at_fault == AtFault::kObserved || set.at_fault == AtFault::kReference;
  if (set.advisory || !is_rounding(set.cause) || !a_side) return set.at_fault;
  int64_t total = 0;
  for (const auto& [party, elements] : rounding) total += elements;
  return 2 * rounding.at(set.at_fault) >= total ? set.at_fault : AtFault::kTolerance;
}

void add(Group& group, const JudgedElements& set, std::vector<ElementRun> runs) {
  for (const ElementRun& run : runs) group.elements += run.count;
  group.against.push_back(set.against);
  if (group.runs.empty()) {
    group.runs = std::move(runs);
    return;
  }
  std::ranges::move(runs, std::back_inserter(group.runs));
  std::ranges::sort(group.runs, {}, &ElementRun::flat);
}

std::vector<Extent> extents_of(const Call& call, const Group& group) {
  const Coordinates sizes = call.sizes();
  const auto dimensions = call.dimensions();
  std::array<std::vector<bool>, kMostDimensions> occurs;
  for (size_t d = 0; d < dimensions.size(); ++d) occurs[d].resize(static_cast<size_t>(sizes[d]));
  Coordinates last{};
  for (const auto& [flat, count] : group.runs) {
    for (int64_t i = flat; i < flat + count; ++i) {
      last = call.coordinates_of(group.gradient, i);
      for (size_t d = 0; d < dimensions.size(); ++d) {
        if (last[d] >= 0) occurs[d][static_cast<size_t>(last[d])] = true;
      }
    }
  }
  std::vector<Extent> extents;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    if (last[d] < 0) continue;
    const auto begin = occurs[d].begin(), end = occurs[d].end();
    Extent extent{dimensions[d], sizes[d]};
    extent.distinct = std::count(begin, end, true);
    extent.first = std::find(begin, end, true) - begin;
    extent.last = sizes[d] - 1 - (std::find(occurs[d].rbegin(), occurs[d].rend(), true) - occurs[d].rbegin());
    extents.push_back(extent);
  }
  return extents;
}

// Returns the side whose values are wrong.
const Side* wrong_side(const Material& material, const Group& group) {
  if (group.at_fault == AtFault::kObserved) return &material.recorded;
  if (group.at_fault != AtFault::kReference) return nullptr;
  if (!group.advisory) return material.reference ? &*material.reference : nullptr;
  const auto side = std::ranges::find(material.replays, group.against.front(), &Side::name);
  return side == material.replays.end() ? nullptr : &*side;
}

// Returns the one that nine in ten elements fit, of those that are in findings: a finding may be a run of many.
std::string common_mistake(const std::vector<const Finding*>& findings) {
  std::map<std::string, int64_t> counts;
  int64_t elements = 0;
  for (const Finding* finding : findings) {
    elements += finding->count;
    const auto texts = finding->evidence.find("as_if");
    if (texts == finding->evidence.end()) continue;
    for (const auto& text : *texts) counts[text.get<std::string>()] += finding->count;
  }
  const auto most = std::ranges::max_element(counts, {}, &std::pair<const std::string, int64_t>::second);
  return most == counts.end() || most->second * 10 < elements * 9 ? std::string{} : most->first;
}

// Returns whether wrong values may be a multiple of the right ones, or off by a constant.
bool has_patterns(Cause cause) { return cause == Cause::kImplementationError || cause == Cause::kUninitializedOutput; }

}  // namespace

bool Group::contains(int64_t flat) const {
  const auto after = std::ranges::upper_bound(runs, flat, {}, &ElementRun::flat);
  return after != runs.begin() && flat < std::prev(after)->flat + std::prev(after)->count;
}

bool Group::contains(const Finding& finding) const {
  return finding.gradient == gradient && finding.cause == cause && finding.advisory == advisory &&
         std::ranges::find(against, finding.against) != against.end() && contains(finding.flat);
}

bool Group::is_complete() const {
  int64_t within = 1;
  for (const Extent& extent : extents) {
    const bool is_determined = extent.dimension.implied() && gradient.scattered();
    if (!is_determined) within *= extent.distinct;
  }
  return within == elements;
}

bool is_mistake(Cause cause) {
  return cause == Cause::kImplementationError || cause == Cause::kUninitializedOutput || cause == Cause::kNonFinite ||
         cause == Cause::kReducedPrecision || cause == Cause::kStoppedSum;
}

std::vector<Group> group_elements(const std::vector<JudgedElements>& judged) {
  const Rounding rounding = count_rounding(judged);
  std::map<std::tuple<bool, Gradient, bool>, GroupedElements> counted;
  std::map<std::tuple<bool, AtFault, Cause, Gradient>, Group> groups;
  const std::string* against = nullptr;
  for (const JudgedElements& set : judged) {
    if (against != nullptr && *against != set.against) {
      for (auto& [key, elements] : counted) elements.next_comparison();
    }
    against = &set.against;
    const AtFault at_fault = charged_with(set, rounding);
    // What the recorded side did wrong counts beside what the reference did: who is wrong there, too, is not right.
    const bool own = at_fault == AtFault::kObserved && is_mistake(set.cause);
    auto runs = counted[{set.advisory, set.gradient, own}].add(set.runs);
    if (runs.empty()) continue;
    Group& group = groups[{set.advisory, at_fault, set.cause, set.gradient}];
    std::tie(group.advisory, group.at_fault, group.cause, group.gradient) =
        std::tuple(set.advisory, at_fault, set.cause, set.gradient);
    add(group, set, std::move(runs));
  }
  std::vector<Group> result;
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  return result;
}

void describe_groups(const Material& material, const std::vector<Finding>& findings, std::vector<Group>& groups) {
  for (Group& group : groups) {
    group.extents = extents_of(*material.call, group);
    std::vector<const Finding*> members;
    double farthest = -1;
    for (const Finding& finding : findings) {
      if (!group.contains(finding)) continue;
      members.push_back(&finding);
      const double apart = std::abs(finding.observed - finding.expected);
      const double distance = std::isnan(apart) ? INFINITY : apart;
      if (distance <= farthest) continue;
      farthest = distance;
      group.farthest = static_cast<size_t>(&finding - findings.data());
    }
    if (!is_mistake(group.cause)) continue;
    group.as_if = common_mistake(members);
    const Side* side = wrong_side(material, group);
    const Tensor wrong = side == nullptr ? Tensor{} : side->of(group.gradient);
    const Tensor& right = material.float64.of(group.gradient);
    if (has_patterns(group.cause)) group.patterns = find_patterns(*material.call, group, wrong, right);
    const Hypotheses* hypotheses = material.call->hypotheses();
    if (group.as_if.empty() && hypotheses != nullptr) group.as_if = hypotheses->mistake_of(group);
    if (group.as_if.empty() && !group.advisory && group.cause == Cause::kImplementationError) {
      group.as_if = scatter_mistake(*material.call, group, wrong, right);
    }
  }
}

}  // namespace msda::analysis
