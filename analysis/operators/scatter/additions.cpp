// The additions to a scattered gradient, as `order` reads their order back.
#include "analysis/model/additions.h"

#include <algorithm>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {

// Returns null if sums are divided in the end: their last bits are lost, and with them the order.
std::shared_ptr<const Additions> ScatterCall::additions(Gradient) const {
  for (int64_t target = 0; target < to_.places(); ++target) {
    if (divisor(to_.flat({target, 0}), {}) != 1) return nullptr;
  }
  return {std::shared_ptr<const void>(), this};
}

std::vector<std::string> ScatterCall::factor_names() const {
  std::vector<std::string> names{inputs().front().name};
  names.insert(names.end(), names_.weights.begin(), names_.weights.end());
  if (last_divides()) names.back() = names_.divisor;
  return names;
}

std::vector<SharedAddend> ScatterCall::shared_addends(int64_t, const FactorArithmetic& by) const {
  std::vector<SharedAddend> all;
  const size_t last = std::max<size_t>(names_.weights.size(), 1) - 1;
  for (int64_t sample = 0; sample < sample_count(); ++sample) {
    send(sample, by, [&](const Contribution& contribution) {
      all.push_back({contribution.target, sample, contribution.corner, contribution.factors});
      if (last_divides()) all.back().factors[last] = contribution.count;
    });
  }
  std::ranges::stable_sort(all, {}, &SharedAddend::target);
  return all;
}

std::vector<int64_t> ScatterCall::elements_of(int64_t target) const {
  std::vector<int64_t> elements;
  for (int64_t c = 0; c < to_.all_channels(); ++c) elements.push_back(to_.flat({target, c}));
  return elements;
}

void ScatterCall::channel_factors(int64_t sample, std::span<double> factors) const {
  for (size_t c = 0; c < factors.size(); ++c) {
    factors[c] = source().at(from_.flat({source_of(sample), static_cast<int64_t>(c)}));
  }
}

std::string ScatterCall::name_of_addend(int64_t sample, int32_t number) const {
  const std::string& corner = names_.corners[static_cast<size_t>(number)];
  return sample_text(sample) + (corner.empty() ? "" : ", " + corner);
}

}  // namespace msda::analysis
