#include "analysis/judge/fits.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "analysis/model/evaluate.h"
#include "analysis/model/hypotheses.h"

namespace msda::analysis {
namespace {

// Returns some elements of a gradient that are in the groups, ascending: chosen at random, since every n-th may have a
// row or a column in common, and the same ones each time.
std::vector<int64_t> some_elements(const std::vector<Group>& groups, Gradient gradient) {
  constexpr size_t kMost = 256;
  std::vector<ElementRun> runs;
  for (const Group& group : groups) {
    if (!group.advisory && group.gradient == gradient) runs.insert(runs.end(), group.runs.begin(), group.runs.end());
  }
  std::ranges::sort(runs, {}, &ElementRun::flat);
  int64_t left = 0;
  for (const ElementRun& run : runs) left += run.count;
  std::vector<int64_t> some;
  std::mt19937_64 random;
  for (const auto& [flat, count] : runs) {
    for (int64_t i = flat; i < flat + count; ++i, --left) {
      // Each with the same probability: as many as are wanted of those that are left.
      if (random() % static_cast<uint64_t>(left) < kMost - some.size()) some.push_back(i);
    }
  }
  return some;
}

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

// Alternatives are tried on some elements of each gradient that the side has: on those in the groups, which the call
// does not explain, and on some that have other values than 0. They explain all gradients or none.
class TriedElements {
 public:
  // The side and the tolerance must outlive it.
  TriedElements(const Call& call, const Side& side, const std::vector<Group>& groups, const Tolerance& tolerance);

  // Returns whether float64 gives too few of a gradient's elements for chance to be the reason.
  bool are_unexplained() const;
  // Returns whether float64 gives all but a few of them for another call: even a side that follows its conventions may
  // have single wrong elements. Elements that only the call's own conventions give contradict the other's, be they few:
  // most of a gradient may be the same under both.
  bool fit(const Call& candidate) const;

 private:
  struct Tried {
    Gradient gradient;
    std::vector<int64_t> elements;
    std::vector<bool> held;  // which of them the call's own conventions give
    int64_t misses() const { return std::ranges::count(held, false); }
  };
  std::vector<bool> held(const Call& call, const Tried& tried) const;

  const Side& side_;
  const Tolerance& tolerance_;
  std::vector<Tried> tried_;
};

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

}  // namespace

std::vector<std::string> fitting_alternatives(const Call& call, const Side& side, const std::vector<Group>& groups,
                                              const Tolerance& tolerance) {
  const Hypotheses* hypotheses = call.hypotheses();
  if (hypotheses == nullptr) return {};
  const TriedElements tried(call, side, groups, tolerance);
  if (!tried.are_unexplained()) return {};
  std::vector<std::string> fits;
  for (const Alternative& alternative : hypotheses->alternatives()) {
    if (tried.fit(*alternative.call)) fits.push_back(alternative.text);
  }
  std::ranges::stable_sort(fits, {}, [](const std::string& text) { return std::ranges::count(text, ' '); });
  if (!hypotheses->names_fewest_changes()) return fits;
  std::vector<std::string> fewest;
  for (const std::string& text : fits) {
    const auto is_part = [&](const std::string& kept) { return text.find(kept) != std::string::npos; };
    if (std::ranges::none_of(fewest, is_part)) fewest.push_back(text);
  }
  return fewest;
}

}  // namespace msda::analysis
