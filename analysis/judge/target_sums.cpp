#include "analysis/judge/target_sums.h"

#include <algorithm>
#include <cmath>

namespace msda::analysis {
namespace {

constexpr size_t kMostFamilies = 4;
constexpr int64_t kMostSamples = int64_t{1} << 22;

}  // namespace

std::vector<int64_t> some_of(const std::vector<ElementRun>& runs, int64_t elements, int64_t most) {
  constexpr int64_t kPrime = 7919;  // one of each `step`, at places that do not repeat as rows do
  const int64_t step = std::max<int64_t>(1, (elements + most - 1) / most);
  std::vector<int64_t> flats;
  int64_t place = 0;
  for (const auto& [flat, count] : runs) {
    for (int64_t i = 0; i < count; ++i, ++place) {
      if (place % step == place / step * kPrime % step) flats.push_back(flat + i);
    }
  }
  return flats;
}

TargetSums::TargetSums(const Call& call, Gradient gradient, const std::vector<int64_t>& flats)
    : gradient_(gradient), additions_(call.additions(gradient)) {
  if (additions_ == nullptr || call.samples_of_family() > kMostSamples) return;
  FactorArithmetic exact = additions_->factor_arithmetics().front();
  exact.type = MSDA_FLOAT64;
  for (const int64_t flat : flats) {
    const int64_t family = call.family_of(gradient, flat), target = call.weights_of(gradient, flat);
    if (families_.size() == kMostFamilies && !families_.contains(family)) continue;
    if (!families_.contains(family)) {
      families_[family] = additions_->shared_addends(family, exact);
    }
    const std::vector<int64_t> elements = additions_->elements_of(target);
    const auto at = std::ranges::find(elements, flat);
    if (at == elements.end()) continue;
    sums_.push_back({flat, family, target, static_cast<size_t>(at - elements.begin()), elements.size()});
  }
}

std::vector<TargetSums::Addend> TargetSums::addends_of(const Additions& additions, const Sum& sum) const {
  std::vector<Addend> addends;
  std::vector<double> channels(sum.channels);
  const size_t shared = additions.factor_names().size() - 1;
  for (const SharedAddend& addend :
       std::ranges::equal_range(families_.at(sum.family), sum.target, {}, &SharedAddend::target)) {
    additions.channel_factors(addend.sample, channels);
    double weight = 1;
    for (size_t i = 0; i < shared; ++i) {
      weight = additions.last_divides() && i + 1 == shared ? weight / addend.factors[i] : weight * addend.factors[i];
    }
    addends.push_back({additions.launch_index(addend.sample), weight, channels[sum.channel]});
  }
  std::ranges::stable_sort(addends, {}, &Addend::launched);
  return addends;
}

bool TargetSums::may_divide_by(double count) const {
  if (empty()) return true;
  const size_t last = std::max<size_t>(additions_->factor_names().size(), 2) - 2;
  return additions_->last_divides() && std::ranges::any_of(families_, [&](const auto& family) {
           return std::ranges::any_of(family.second, [&](const auto& addend) { return addend.factors[last] == count; });
         });
}

std::vector<int64_t> TargetSums::reached_from(int64_t first, size_t most) const {
  std::vector<int64_t> flats;
  for (const auto& [family, addends] : families_) {
    for (const SharedAddend& addend : addends) {
      if (flats.size() >= most || additions_->launch_index(addend.sample) < first) continue;
      for (const int64_t flat : additions_->elements_of(addend.target)) flats.push_back(flat);
    }
  }
  return flats;
}

}  // namespace msda::analysis
