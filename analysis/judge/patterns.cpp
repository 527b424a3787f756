#include "analysis/judge/patterns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace msda::analysis {
namespace {

struct WrongValue {
  Coordinates at;
  double wrong, right;
};

// Returns at most so many, spread evenly: a pattern shows in few.
std::vector<WrongValue> sample_of(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  constexpr int64_t kMost = 50'000;
  const int64_t step = std::max<int64_t>(1, group.elements / kMost);
  std::vector<WrongValue> values;
  int64_t place = 0;
  for (const auto& [flat, count] : group.runs) {
    for (int64_t i = 0; i < count; ++i, ++place) {
      if (place % step != 0) continue;
      values.push_back({call.coordinates_of(group.gradient, flat + i), wrong.at(flat + i), right.at(flat + i)});
    }
  }
  return values;
}

// Returns the median of values of which nine in ten are as good as equal; the others may have been rounded to nothing.
std::optional<double> common(std::vector<double> values, size_t total) {
  if (values.size() * 10 < total * 9) return std::nullopt;
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

// Returns the patterns of the parts whose elements share these indices; empty unless each part has one, and enough
// elements to show it.
std::vector<Pattern> patterns_by(const Call::Part& dimensions, const std::vector<WrongValue>& values,
                                 int64_t elements) {
  constexpr size_t kMostParts = 8, kFewest = 3;
  std::map<std::vector<int64_t>, std::vector<const WrongValue*>> parts;
  for (const WrongValue& value : values) {
    std::vector<int64_t> key;
    for (const Dimension dimension : dimensions) key.push_back(value.at[dimension.place()]);
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

}  // namespace

std::vector<Pattern> find_patterns(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  if (!wrong || !right) return {};
  const std::vector<WrongValue> values = sample_of(call, group, wrong, right);
  for (const Call::Part& part : call.parts()) {
    if (auto patterns = patterns_by(part, values, group.elements); !patterns.empty()) return patterns;
  }
  return {};
}

}  // namespace msda::analysis
