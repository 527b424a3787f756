#include "analysis/model/fits.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "analysis/model/evaluate.h"

namespace msda::analysis {
namespace {

std::vector<int64_t> tried_elements(const Tensor& recorded, Gradient gradient, const std::vector<Group>& groups) {
  constexpr int kDrawn = 4096;
  constexpr size_t kMost = 512;
  std::vector<int64_t> tried = some_elements(groups, gradient);
  std::mt19937_64 random;
  for (int drawn = 0; drawn < kDrawn && tried.size() < kMost; ++drawn) {
    const auto flat = static_cast<int64_t>(random() % static_cast<uint64_t>(recorded.elements()));
    if (recorded.at(flat) != 0) tried.push_back(flat);
  }
  std::ranges::sort(tried);
  const auto repeated = std::ranges::unique(tried);
  tried.erase(repeated.begin(), repeated.end());
  return tried;
}

constexpr int64_t kByChance = 3;  // misses

}  // namespace

TriedElements::TriedElements(const Call& call, const Side& side, const std::vector<Group>& groups,
                             const Tolerance& tolerance)
    : side_(side), tolerance_(tolerance) {
  for (const Gradient gradient : call.gradients()) {
    const Tensor& recorded = side.of(gradient);
    if (!recorded || recorded.elements() == 0) continue;
    Tried tried{gradient, tried_elements(recorded, gradient, groups), {}};
    tried.held = held(call, tried);
    tried_.push_back(std::move(tried));
  }
}

bool TriedElements::are_unexplained() const {
  return std::ranges::any_of(tried_, [](const Tried& tried) { return tried.misses() > kByChance; });
}

bool TriedElements::fit(const Call& candidate) const {
  constexpr int64_t kOne = 50;  // in so many may miss
  return std::ranges::all_of(tried_, [&](const Tried& tried) {
    const std::vector<bool> held_by_other = held(candidate, tried);
    int64_t misses = 0, contradict = 0, differ = 0;
    for (size_t i = 0; i < held_by_other.size(); ++i) {
      misses += !held_by_other[i];
      contradict += tried.held[i] && !held_by_other[i];
      differ += tried.held[i] != held_by_other[i];
    }
    const int64_t among = tried.misses() > kByChance ? tried.misses() : std::ssize(tried.elements);
    return misses * kOne <= among && contradict * kOne <= differ;
  });
}

std::vector<bool> TriedElements::held(const Call& call, const Tried& tried) const {
  const auto cache = call.new_cache();
  std::vector<bool> held;
  for (const int64_t flat : tried.elements) {
    const double value = side_.of(tried.gradient).at(flat);
    const double truth = float64_value(call, call.element_id(tried.gradient, flat), *cache);
    held.push_back(tolerance_.holds(value, truth) || (std::isnan(value) && std::isnan(truth)));
  }
  return held;
}

}  // namespace msda::analysis
