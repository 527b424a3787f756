// The mistakes that are tried on a scattered gradient.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/numbers/by_chance.h"
#include "analysis/operators/scatter/table.h"

namespace msda::analysis {
namespace {

// What each source adds to an element.
struct BySource {
  std::vector<std::pair<int64_t, double>> added;
  double unweighted = 0;
};

}  // namespace

std::vector<Mistake> ScatterCall::mistakes(const ElementId& id, const Place&, const Element& exact,
                                           const Precision& precision, Cache& cache) const {
  const auto at = to().at(id.flat);
  const double divided = divisor(at.place);
  const ScatterTable& table = static_cast<ScatterCache&>(cache).exact(coordinate_precision(precision));
  const Tensor& numbers = source();
  std::vector<Mistake> mistakes = own_mistakes(id, exact, cache);
  const auto before = held(id.flat);
  if (before) {
    mistakes.push_back({"what it held before were left out", exact.value - *before / divided});
    mistakes.push_back({"nothing were added to what it held before", *before});
    mistakes.push_back({"what it held before were added twice", exact.value + *before / divided});
  }
  // Several contributions of one source are lost and added together.
  BySource by_source;
  by_source.unweighted = before.value_or(0);
  for (const auto& [from_place, first, weight, error, is_signed] : table.entries(at.place)) {
    const double number = numbers.at(first + from().of_channel(at.channel));
    if (by_source.added.empty() || by_source.added.back().first != from_place)
      by_source.added.push_back({from_place, 0});
    by_source.added.back().second += weight * number / divided;
    by_source.unweighted += number;
  }
  SpreadOfAddends spread;
  for (const auto& [from_place, added] : by_source.added) spread.add(added);
  const bool names_sources = !spread.leaves_it_to_chance(exact.bound());
  for (const auto& [from_place, added] : by_source.added) {
    if (!names_sources) break;
    const std::string text = fmt::format("the contribution of {} {} were", names().source, from_place);
    mistakes.push_back({text + " missing", exact.value - added});
    mistakes.push_back({text + " added twice", exact.value + added});
  }
  if (!names().weights.empty()) mistakes.push_back({"the weights were not multiplied in", by_source.unweighted});
  mistakes.push_back({"everything were added twice", 2 * exact.value - before.value_or(0) / divided});
  for (const int64_t step : {-1, 1}) {
    const int64_t neighbour = at.place + step;
    if (neighbour < 0 || neighbour >= to().places()) continue;
    mistakes.push_back(
        {"it were that of " + target_text(neighbour), exact_value(to().flat({neighbour, at.channel}), cache)});
  }
  return mistakes;
}

}  // namespace msda::analysis
