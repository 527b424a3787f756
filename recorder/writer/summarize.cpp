#include "recorder/writer/summarize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "kernels/walk.h"

namespace msda::record {
namespace {

using capture::Extreme;

// The most extreme number of one part by `beats`, and its place in the part.
struct Candidate {
  double value = 0;
  int64_t flat = -1;

  template <class Beats>
  void consider(double x, int64_t at, Beats beats) {
    if (flat >= 0 && !beats(x, value)) return;
    value = x;
    flat = at;
  }
};

// Parts may come in any order: among equal numbers the one with the lowest index wins.
template <class Beats>
void merge(std::optional<Extreme>& extreme, const Candidate& candidate, const Box& box, Beats beats) {
  if (candidate.flat < 0 || (extreme && beats(extreme->value, candidate.value))) return;
  auto index = box.index_of(candidate.flat);
  if (extreme && extreme->value == candidate.value && extreme->index < index) return;
  extreme = Extreme{candidate.value, std::move(index)};
}

}  // namespace

int64_t Box::elements() const { return kernels::elements_of(shape); }

std::vector<int64_t> Box::index_of(int64_t flat) const {
  std::vector<int64_t> index = kernels::index_of(shape, flat);
  std::ranges::transform(index, offset, index.begin(), std::plus());
  return index;
}

double MagnitudeSum::mean(int64_t count) const {
  double mean = 0;
  for (int exponent = 0; exponent < static_cast<int>(high_.size()); ++exponent) {
    const auto at = static_cast<size_t>(exponent);
    if ((high_[at] | low_[at]) == 0) continue;
    const double significands = std::ldexp(static_cast<double>(high_[at]), 26) + static_cast<double>(low_[at]);
    mean += std::ldexp(significands / static_cast<double>(count), std::max(exponent, 1) - 1075);
  }
  return mean;
}

void Summarizer::add(std::span<const double> numbers, const Box& box) {
  constexpr uint64_t kInfinite = uint64_t{0x7ff} << 52, kMagnitude = ~uint64_t{0} >> 1;
  Candidate lowest, highest;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i];
    const uint64_t magnitude = std::bit_cast<uint64_t>(x) & kMagnitude;
    if (magnitude >= kInfinite) {
      counted_.nan += magnitude > kInfinite;
      counted_.positive_infinite += magnitude == kInfinite && x > 0;
      counted_.negative_infinite += magnitude == kInfinite && x < 0;
      continue;
    }
    ++counted_.finite;
    counted_.zeros += magnitude == 0;
    counted_.subnormal += magnitude != 0 && std::abs(x) < smallest_normal_;
    magnitudes_.add(magnitude);
    lowest.consider(x, static_cast<int64_t>(i), std::less<>());
    highest.consider(x, static_cast<int64_t>(i), std::greater<>());
  }
  counted_.count += static_cast<int64_t>(numbers.size());
  merge(counted_.minimum, lowest, box, std::less<>());
  merge(counted_.maximum, highest, box, std::greater<>());
}

capture::StageSummary Summarizer::summary() const {
  capture::StageSummary summary = counted_;
  if (summary.finite == 0) return summary;
  summary.mean_magnitude = magnitudes_.mean(summary.finite);
  summary.largest_magnitude = std::max(std::abs(summary.minimum->value), std::abs(summary.maximum->value));
  return summary;
}

void Differences::add(std::span<const double> numbers, std::span<const double> float64, const Box& box) {
  Candidate absolute, relative;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i], exact = float64[i];
    if (!std::isfinite(x) || !std::isfinite(exact)) {
      found_.differing_finiteness += x != exact && !(std::isnan(x) && std::isnan(exact));
      continue;
    }
    const double difference = std::abs(x - exact);
    absolute.consider(difference, static_cast<int64_t>(i), std::greater<>());
    if (exact != 0) relative.consider(difference / std::abs(exact), static_cast<int64_t>(i), std::greater<>());
  }
  merge(found_.largest_absolute_difference, absolute, box, std::greater<>());
  merge(found_.largest_relative_difference, relative, box, std::greater<>());
}

capture::StageInFloat64 Differences::beside(const capture::StageSummary& float64) const {
  capture::StageInFloat64 result = found_;
  result.summary = float64;
  return result;
}

}  // namespace msda::record
