// The mistakes that are tried on an element of an operator of the user's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/numbers/by_chance.h"
#include "analysis/operators/own/call.h"

namespace msda::analysis {

std::vector<Mistake> OwnCall::mistakes(const ElementId& id, const Place& place, const Element& exact,
                                       const Precision& precision, Cache& cache) const {
  struct Added {
    int64_t number;
    double value;
  };
  const size_t output = id.gradient.place();
  const auto& tensors = definition_->inputs();
  std::vector<Added> all;
  double unweighted = 0;
  bool any_weight = false;
  SpreadOfAddends spread;
  definition_->terms(output, id.flat, cells_of(place), precision, [&](const OwnTerm& term) {
    double product = 1;
    for (const OwnTerm::Input& input : term.inputs) product *= tensors[input.tensor].tensor.at(input.flat);
    unweighted += product;
    any_weight = any_weight || term.weight != 1;
    all.push_back({term.number, term.weight * product});
    spread.add(all.back().value);
  });
  std::vector<Mistake> mistakes;
  if (!spread.leaves_it_to_chance(exact.bound())) {
    for (const Added& addend : all) {
      const std::string text = "the addend of " + definition_->name_of_term(output, addend.number) + " were";
      mistakes.push_back({text + " missing", exact.value - addend.value});
      mistakes.push_back({text + " added twice", exact.value + addend.value});
    }
  }
  if (any_weight) mistakes.push_back({"the weights were not multiplied in", unweighted});
  mistakes.push_back({"everything were added twice", 2 * exact.value});
  mistakes.push_back({"nothing were added", 0});
  // Its neighbour along each dimension.
  const Index shape = shape_of(id.gradient), at = kernels::index_of(shape, id.flat);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    for (const int64_t step : {-1, 1}) {
      if (at[i] + step < 0 || at[i] + step >= shape[i]) continue;
      const ElementId neighbour{id.gradient, id.flat + step * stride, {}};
      const double value = element(neighbour, exact_place(neighbour), {precision, precision}, nullptr, cache).value;
      mistakes.push_back(
          {fmt::format("it were that of {}", fmt::join(text_of_place(id.gradient, neighbour.flat), ", ")), value});
    }
  }
  return mistakes;
}

}  // namespace msda::analysis
