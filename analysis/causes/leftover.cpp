#include "analysis/causes/leftover.h"

#include <algorithm>
#include <cmath>

#include "analysis/model/explain.h"

namespace msda::analysis {
namespace {

constexpr int64_t kFewestEqual = 16;  // elements that are not zero, for any of this to be no coincidence
constexpr int64_t kMostLeftovers = 512;

// Returns some elements, spread over the tensor, whose number `counts`.
template <class Counts>
std::vector<int64_t> examined(const Tensor& tensor, Counts&& counts) {
  const int64_t total = tensor.elements(), step = std::max<int64_t>(1, total / kMostLeftovers);
  std::vector<int64_t> elements;
  for (int64_t flat = 0; flat < total; flat += step) {
    if (std::isfinite(tensor.at(flat)) && tensor.at(flat) != 0 && counts(flat)) elements.push_back(flat);
  }
  return elements;
}

bool have_one_shape(const Tensor& a, const Tensor& b) { return a && b && a.shape == b.shape; }

// Returns whether a buffer that some of was zeroed holds nothing but the result.
bool is_rest_of(const Tensor& before, const Tensor& result) {
  int64_t equal = 0;
  const int64_t total = before.elements();
  for (int64_t flat = 0; flat < total; ++flat) {
    if (before.at(flat) == 0) continue;
    if (before.at(flat) != result.at(flat)) return false;
    ++equal;
  }
  return equal >= kFewestEqual;
}

// Returns how many times the gradient the buffer holds; 0 if it holds something else.
int64_t times_the_gradient(const Material& material, const Side& recorded, Gradient gradient, const Tensor& before,
                           Cache& cache) {
  constexpr int64_t kMost = 10'000;
  const Tensor& truth = material.float64.of(gradient);
  const auto elements = examined(before, [&](int64_t flat) { return truth.at(flat) != 0; });
  if (std::ssize(elements) < kFewestEqual) return 0;
  std::vector<double> ratios;
  for (const int64_t flat : elements) ratios.push_back(before.at(flat) / truth.at(flat));
  const auto middle = ratios.begin() + std::ssize(ratios) / 2;
  std::ranges::nth_element(ratios, middle);
  const double times = std::round(*middle);
  if (!(times >= 1 && times <= kMost)) return 0;
  const bool all = std::ranges::all_of(elements, [&](int64_t flat) {
    const Explanation explanation =
        explain(*material.call, recorded, material.call->element_id(gradient, flat), before.at(flat) / times, cache);
    // So many launches round as often.
    return std::ranges::any_of(explanation.candidates, [&](const Match& m) { return m.residual <= times * m.bound; });
  });
  return all ? static_cast<int64_t>(times) : 0;
}

// Returns whether the side's values are the gradient added to the result.
bool is_beneath(const Material& material, const Side& recorded, Gradient gradient, const Tensor& result, Cache& cache) {
  const Tensor& observed = recorded.of(gradient);
  int64_t unexplained = 0;
  for (const int64_t flat : examined(result, [&](int64_t at) { return std::isfinite(observed.at(at)); })) {
    const ElementId id = material.call->element_id(gradient, flat);
    const double added = observed.at(flat) - result.at(flat);
    const double slack = Precision::of(observed.dtype).unit * (std::abs(result.at(flat)) + std::abs(observed.at(flat)));
    const Explanation of_added = explain(*material.call, recorded, id, added, cache);
    if (std::ranges::none_of(of_added.candidates, [&](const Match& m) { return m.residual <= m.bound + slack; })) {
      return false;
    }
    unexplained += !explain(*material.call, recorded, id, cache).explained();
  }
  return unexplained >= kFewestEqual;
}

}  // namespace

std::optional<Leftover> find_leftover(const Material& material, const Side& recorded, Gradient gradient, Cache& cache) {
  const auto at = gradient.place();
  const Tensor& before = material.before[at];
  const auto earlier = material.earlier ? material.earlier() : std::vector<EarlierResult>{};
  const auto from = [&](const EarlierResult& result, bool is_recorded, const Tensor& contents) {
    return Leftover{result.invocation, result.tensor, result.digest, 1, is_recorded, contents, result};
  };
  for (const EarlierResult& result : earlier) {
    if (before && !result.digest.empty() && result.digest == material.before_digests[at]) {
      return from(result, true, before);
    }
  }
  if (before) {
    if (const int64_t times = times_the_gradient(material, recorded, gradient, before, cache); times > 0) {
      return Leftover{std::nullopt, name_of(gradient), material.before_digests[at], times, true, before, {}};
    }
  }
  for (const EarlierResult& result : earlier) {
    if (result.tensor != name_of(gradient)) continue;
    const Tensor contents = result.read();
    if (!have_one_shape(contents, recorded.of(gradient))) continue;
    if (before ? is_rest_of(before, contents) : is_beneath(material, recorded, gradient, contents, cache)) {
      return from(result, bool{before}, before ? before : contents);
    }
  }
  return std::nullopt;
}

}  // namespace msda::analysis
