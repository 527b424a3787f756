#include "analysis/patterns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace msda::analysis {
namespace {

// Values within this of each other count as one: the last roundings of 16-bit types differ by less.
constexpr double kClose = 0.02;

bool is_close(double a, double b) { return std::abs(a - b) <= kClose / 2 * std::abs(b); }

struct WrongValue {
  Coordinates at;
  double wrong, right;
};

// At most so many, spread evenly: a pattern shows in few.
std::vector<WrongValue> sample_of(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  constexpr int64_t kMost = 50'000;
  const int64_t step = std::max<int64_t>(1, group.elements / kMost);
  std::vector<WrongValue> values;
  int64_t place = 0;
  for (const auto& [flat, count] : group.runs) {
    for (int64_t i = 0; i < count; ++i, ++place) {
      if (place % step != 0) continue;
      values.push_back({coordinates_of(call, group.gradient, flat + i), wrong.at(flat + i), right.at(flat + i)});
    }
  }
  return values;
}

// The median of values of which nine in ten are as good as equal; the others may have been rounded to nothing.
std::optional<double> common(std::vector<double> values, size_t of) {
  if (values.size() * 10 < of * 9) return std::nullopt;
  std::ranges::sort(values);
  const double low = values[values.size() / 20], high = values[values.size() - 1 - values.size() / 20];
  const double median = values[values.size() / 2];
  if (high - low > kClose * std::abs(median)) return std::nullopt;
  return median;
}

std::optional<Pattern> pattern_of(const std::vector<const WrongValue*>& values) {
  std::vector<double> ratios, offsets;
  for (const WrongValue* value : values) {
    if (value->right != 0 && std::isfinite(value->wrong / value->right)) ratios.push_back(value->wrong / value->right);
    if (std::isfinite(value->wrong - value->right)) offsets.push_back(value->wrong - value->right);
  }
  Pattern pattern;
  if (const auto ratio = common(std::move(ratios), values.size())) {
    pattern.value = *ratio;
  } else if (const auto offset = common(std::move(offsets), values.size())) {
    pattern.kind = Pattern::Kind::kOffset;
    pattern.value = *offset;
  } else {
    return std::nullopt;
  }
  return pattern;
}

using Part = std::vector<Dimension>;

// The patterns of the parts whose elements share these indices; empty unless each part has one, and enough elements to
// show it.
std::vector<Pattern> patterns_by(const Part& dimensions, const std::vector<WrongValue>& values, int64_t elements) {
  constexpr size_t kMostParts = 8, kFewest = 3;
  std::map<std::vector<int64_t>, std::vector<const WrongValue*>> parts;
  for (const WrongValue& value : values) {
    std::vector<int64_t> key;
    for (const Dimension dimension : dimensions) key.push_back(value.at[static_cast<size_t>(dimension)]);
    parts[key].push_back(&value);
    if (parts.size() > kMostParts) return {};
  }
  std::vector<Pattern> patterns;
  for (const auto& [key, members] : parts) {
    auto pattern = members.size() < kFewest ? std::nullopt : pattern_of(members);
    if (!pattern) return {};
    for (size_t i = 0; i < key.size(); ++i) pattern->part.push_back({dimensions[i], key[i]});
    const double share = static_cast<double>(members.size()) / static_cast<double>(values.size());
    pattern->elements = std::llround(share * static_cast<double>(elements));
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

// The sizes along an axis of the levels that a pattern's elements lie in; empty if they are too many to tell.
std::vector<LevelSize> levels_of(const Call& call, const Group& group, const Pattern& pattern) {
  for (const auto& [dimension, index] : pattern.part) {
    if (dimension == Dimension::kLevel) return {call.levels[static_cast<size_t>(index)]};
  }
  const Extent& levels = group.extent(Dimension::kLevel);
  if (!levels.is_range()) return {};
  return {call.levels.begin() + levels.first, call.levels.begin() + levels.last + 1};
}

// Whether every pattern is one of an axis, with the ratio that `expected(size along it, size across)` gives.
template <class Expected>
bool all_have_ratio(const Call& call, const Group& group, Expected&& expected) {
  const auto fits = [&](const Pattern& pattern) {
    int64_t axis = group.extent(Dimension::kAxis).is_one() ? group.extent(Dimension::kAxis).first : -1;
    for (const auto& [dimension, index] : pattern.part) axis = dimension == Dimension::kAxis ? index : axis;
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

std::vector<Pattern> find_patterns(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  if (!wrong || !right) return {};
  using enum Dimension;
  static const Part kParts[] = {{}, {kAxis}, {kLevel}, {kLevel, kAxis}, {kHead}, {kPoint}, {kBatch}, {kChannel}};
  const std::vector<WrongValue> values = sample_of(call, group, wrong, right);
  for (const Part& part : kParts) {
    if (auto patterns = patterns_by(part, values, group.elements); !patterns.empty()) return patterns;
  }
  return {};
}

std::string mistake_of(const Call& call, const Group& group) {
  if (group.gradient != Gradient::kSamplingLocations) return {};
  const auto fits = [&](auto&& expected) { return all_have_ratio(call, group, expected); };
  if (fits([](double along, double across) { return across / along; })) return "width and height were swapped";
  if (fits([](double along, double) { return 1 / along; })) return "the level's size were not multiplied in";
  if (fits([](double along, double) { return along; })) return "the level's size were multiplied in twice";
  if (fits([](double along, double) { return (along - 1) / along; })) return "align_corners were true";
  if (fits([](double along, double) { return along / (along - 1); })) return "align_corners were false";
  return {};
}

}  // namespace msda::analysis
