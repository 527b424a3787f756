#include "analysis/judge/lost_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "analysis/judge/target_sums.h"

namespace msda::analysis {
namespace {

constexpr int64_t kMostSums = 256;
constexpr size_t kFewestSums = 8, kFewestTargets = 3;

// Where the first lost sample may be, by what an element's sum is: after `after`, up to `until`.
struct Range {
  int64_t after, until;
};

struct Sum {
  std::vector<TargetSums::Addend> addends;  // as launched
  double right, wrong, bound;

  bool is_close(double kept) const { return std::abs(wrong - kept) <= bound + 1e-3 * std::abs(right - kept); }
  // Returns whether the samples from `first` on are missing, or none of them matters.
  bool lacks(int64_t first) const {
    double kept = right;
    for (const auto& addend : addends) kept -= addend.launched >= first ? addend.value() : 0;
    return is_close(kept);
  }
  std::vector<Range> ranges() const {
    std::vector<Range> found;
    double kept = right;
    for (size_t i = addends.size(); i-- > 0;) {
      kept -= addends[i].value();
      const int64_t before = i == 0 ? -1 : addends[i - 1].launched;
      if (before < addends[i].launched && is_close(kept)) found.push_back({before, addends[i].launched});
    }
    return found;
  }
};

std::vector<Sum> sums_of(const TargetSums& targets, const Tensor& wrong, const Tensor& right) {
  const double unit = 64 * Precision::of(arithmetic_of(wrong.dtype)).unit + 4 * Precision::of(wrong.dtype).unit;
  std::vector<Sum> sums;
  for (size_t i = 0; i < targets.size(); ++i) {
    Sum sum{targets.addends(i), right.at(targets.flat(i)), wrong.at(targets.flat(i)), 0};
    double magnitude = std::abs(sum.right);
    for (const auto& addend : sum.addends) magnitude += std::abs(addend.value());
    sum.bound = unit * magnitude;
    sums.push_back(std::move(sum));
  }
  return sums;
}

// Returns the first lost sample that most of the sums agree on.
std::optional<int64_t> first_lost(const std::vector<Sum>& sums) {
  std::map<int64_t, int64_t> changes;
  for (const Sum& sum : sums) {
    for (const auto& [after, until] : sum.ranges()) {
      ++changes[after + 1];
      --changes[until + 1];
    }
  }
  int64_t agree = 0, most = 0;
  std::optional<int64_t> first;
  for (auto change = changes.begin(); change != changes.end(); ++change) {
    agree += change->second;
    if (agree <= most) continue;
    most = agree;
    first = std::next(change)->first - 1;  // that is launched, as far as these sums show
  }
  return 10 * most >= 9 * static_cast<int64_t>(sums.size()) ? first : std::nullopt;
}

bool nine_in_ten_lack(const std::vector<Sum>& sums, int64_t first) {
  const auto lacking = std::ranges::count_if(sums, [&](const Sum& sum) { return sum.lacks(first); });
  return 10 * lacking >= 9 * std::ssize(sums);
}

}  // namespace

std::string lost_samples(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  const TargetSums targets(call, group.gradient, some_of(group.runs, group.elements, kMostSums));
  if (targets.size() < kFewestSums) return {};
  const std::vector<Sum> sums = sums_of(targets, wrong, right);
  const auto first = first_lost(sums);
  if (!first) return {};
  std::set<int64_t> lost, kept, reached;
  for (size_t i = 0; i < sums.size(); ++i) {
    for (const auto& addend : sums[i].addends) (addend.launched >= *first ? lost : kept).insert(addend.launched);
    reached.insert(call.weights_of(group.gradient, targets.flat(i)));
  }
  if (lost.size() < 2 || kept.empty() || reached.size() < kFewestTargets) return {};
  // Sums that are right must not have lost anything either.
  const TargetSums all(call, group.gradient, targets.reached_from(*first, kMostSums));
  if (!nine_in_ten_lack(sums_of(all, wrong, right), *first)) return {};
  return fmt::format("{} {} and all after it were missing", targets.additions().launch_index_name(), *first);
}

}  // namespace msda::analysis
