// Which mistakes the ratios of wrong values to right ones show.
#include "analysis/judge/patterns.h"

#include <algorithm>
#include <cmath>

#include "analysis/judge/groups.h"
#include "analysis/operators/msda/call.h"

namespace msda::analysis {
namespace {

// Returns the sizes along an axis of the levels that a pattern's elements lie in; empty if they are too many to list.
std::vector<LevelSize> levels_of(const MsdaCall& call, const Group& group, const Pattern& pattern) {
  for (const auto& [dimension, index] : pattern.part) {
    if (dimension == MsdaDimension::kLevel) return {call.levels[static_cast<size_t>(index)]};
  }
  const Extent& levels = group.extent(MsdaDimension::kLevel);
  if (!levels.is_range()) return {};
  return {call.levels.begin() + levels.first, call.levels.begin() + levels.last + 1};
}

// Returns whether every pattern is one of an axis, with the ratio that `expected(size along it, size across)` gives.
template <class Expected>
bool all_have_ratio(const MsdaCall& call, const Group& group, Expected&& expected) {
  const auto fits = [&](const Pattern& pattern) {
    int64_t axis = group.extent(MsdaDimension::kAxis).is_one() ? group.extent(MsdaDimension::kAxis).first : -1;
    for (const auto& [dimension, index] : pattern.part) axis = dimension == MsdaDimension::kAxis ? index : axis;
    const auto levels = levels_of(call, group, pattern);
    return axis >= 0 && pattern.kind == Pattern::Kind::kRatio && !levels.empty() &&
           std::ranges::all_of(levels, [&](const LevelSize& level) {
             const double along = side_of(level, static_cast<int>(axis));
             const double across = side_of(level, static_cast<int>(1 - axis));
             const double ratio = expected(along, across);
             return !is_close(ratio, 1) && is_close(pattern.value, ratio);
           });
  };
  return !group.patterns.empty() && std::ranges::all_of(group.patterns, fits);
}

}  // namespace

std::string MsdaCall::mistake_of(const Group& group) const {
  if (group.gradient != MsdaGradient::kSamplingLocations) return {};
  const auto fits = [&](auto&& expected) { return all_have_ratio(*this, group, expected); };
  if (fits([](double along, double across) { return across / along; })) return "width and height were swapped";
  if (fits([](double along, double) { return 1 / along; })) return "the level's size were not multiplied in";
  if (fits([](double along, double) { return along; })) return "the level's size were multiplied in twice";
  if (fits([](double along, double) { return (along - 1) / along; })) return "align_corners were true";
  if (fits([](double along, double) { return along / (along - 1); })) return "align_corners were false";
  return {};
}

std::span<const Call::Part> MsdaCall::parts() const {
  using Of = MsdaDimension;
  static const Part kParts[] = {{},          {Of::kAxis},  {Of::kLevel}, {Of::kLevel, Of::kAxis},
                                {Of::kHead}, {Of::kPoint}, {Of::kBatch}, {Of::kChannel}};
  return kParts;
}

}  // namespace msda::analysis
