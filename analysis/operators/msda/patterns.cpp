// Which mistakes the ratios of wrong values to right ones show.
#include <algorithm>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {
namespace {

// Returns the sizes of the levels that a pattern's elements lie in; none if they are too many to list.
std::span<const LevelSize> levels_of(const MsdaCall& call, const WrongValues& wrong, const Pattern& pattern) {
  const std::span<const LevelSize> all = call.levels;
  if (const auto level = wrong.index_of(pattern, MsdaDimension::kLevel)) {
    return all.subspan(static_cast<size_t>(*level), 1);
  }
  const Extent& levels = wrong.extent(MsdaDimension::kLevel);
  if (!levels.is_range()) return {};
  return all.subspan(static_cast<size_t>(levels.first), static_cast<size_t>(levels.distinct));
}

// Returns whether every pattern is one of an axis, with the ratio that `expected(size along it, size across)` gives.
template <class Expected>
bool all_have_ratio(const MsdaCall& call, const WrongValues& wrong, Expected&& expected) {
  const auto fits = [&](const Pattern& pattern) {
    const auto axis = wrong.index_of(pattern, MsdaDimension::kAxis);
    const auto levels = levels_of(call, wrong, pattern);
    return axis && !levels.empty() && std::ranges::all_of(levels, [&](const LevelSize& level) {
             const double along = side_of(level, static_cast<int>(*axis)),
                          across = side_of(level, static_cast<int>(1 - *axis));
             return pattern.is_ratio(expected(along, across));
           });
  };
  return !wrong.patterns.empty() && std::ranges::all_of(wrong.patterns, fits);
}

}  // namespace

std::string MsdaCall::mistake_of(const WrongValues& wrong) const {
  if (wrong.gradient != MsdaGradient::kSamplingLocations) return {};
  const auto fits = [&](auto&& expected) { return all_have_ratio(*this, wrong, expected); };
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
