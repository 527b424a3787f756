#include "replay/own/own_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/model/evaluate.h"
#include "kernels/walk.h"
#include "replay/base/errors.h"
#include "replay/own/described_operator.h"

namespace msda::replay {

using analysis::Axis;
using analysis::Cache;
using analysis::Coordinate;
using analysis::Dimension;
using analysis::ElementId;
using analysis::Gradient;
using analysis::Index;
using analysis::Landing;
using analysis::Landings;
using analysis::NamedTensor;
using analysis::Place;
using analysis::Precision;
using analysis::Tensor;
using analysis::Term;

namespace {

// Beyond this a coordinate's cell has no number; nothing is known of where it lands.
constexpr double kFarthest = 0x1p30;

Landing landing_in(double cell, const Coordinate& at) {
  Landing landing{};
  landing.low = landing.region = static_cast<int32_t>(cell);
  landing.fraction = at.exact - cell;
  landing.error = at.error;
  return landing;
}

}  // namespace

OwnCall::OwnCall(const DescribedOperator& described, NamedValues values, std::vector<size_t> present,
                 std::vector<Tensor> tensors, const analysis::Coordinates& sizes, std::string where)
    : values_(std::move(values)),
      present_(std::move(present)),
      sizes_(sizes),
      where_(std::move(where)),
      described_(described),
      parts_{{}} {
  for (size_t i = 0; i < present_.size(); ++i) {
    inputs_.push_back({described.spec().tensors[present_[i]].name.c_str(), std::move(tensors[i])});
  }
  for (const Dimension& dimension : described.dimensions()) parts_.push_back({dimension});
}

void OwnCall::check_outputs(const analysis::Coordinates& recorded, const char* dimensions) const {
  for (const Gradient gradient : gradients()) {
    Index shape;
    for (const size_t dimension : described_.outputs()[gradient.place()].index) shape.push_back(recorded[dimension]);
    if (shape == shape_of(gradient)) continue;
    throw BadInput(fmt::format("{}: {} has shape {}, and its {} the sizes {}", where_, gradient.name(), shape,
                               dimensions, shape_of(gradient)));
  }
}

std::span<const Gradient> OwnCall::gradients() const { return described_.gradients(); }
std::span<const Dimension> OwnCall::dimensions() const { return described_.dimensions(); }
std::string OwnCall::operator_name() const { return described_.name(); }

Index OwnCall::shape_of(Gradient gradient) const {
  Index shape;
  for (const size_t dimension : described_.outputs()[gradient.place()].index) shape.push_back(sizes_[dimension]);
  return shape;
}

std::vector<NamedTensor> OwnCall::inputs() const {
  std::vector<NamedTensor> all;
  std::ranges::copy_if(inputs_, std::back_inserter(all),
                       [](const NamedTensor& input) { return kernels::is_float(input.tensor.dtype); });
  return all;
}

msda_dtype OwnCall::arithmetic() const {
  if (described_.spec().op->rounds_to_tensors) {
    const auto is_real = [](const NamedTensor& input) { return kernels::is_float(input.tensor.dtype); };
    return std::ranges::find_if(inputs_, is_real)->tensor.dtype;
  }
  const auto is_float64 = [](const NamedTensor& input) { return input.tensor.dtype == MSDA_FLOAT64; };
  return std::ranges::any_of(inputs_, is_float64) ? MSDA_FLOAT64 : MSDA_FLOAT32;
}

bool OwnCall::begins_with_itself(Gradient gradient) const {
  return described_.outputs()[gradient.place()].begins_with_itself;
}

bool OwnCall::adds_to_output() const {
  return std::ranges::any_of(described_.outputs(), &OwnOutput::begins_with_itself);
}

Landings OwnCall::landings(const Axis& axis, const Precision& precision) const {
  const Coordinate at = coordinate(axis, precision);
  Landings all;
  if (!(std::abs(at.exact) < kFarthest) || !(at.error < kFarthest)) {
    const bool known = std::abs(at.exact) < kFarthest;
    all.push_back(landing_in(known ? std::floor(at.exact) : 0, {at.exact, INFINITY}));
    return all;
  }
  // Subtracting an error below half a unit in the last place leaves a whole number as it is.
  const double least = at.error > 0 ? std::nextafter(at.exact - at.error, -INFINITY) : at.exact;
  const double first = std::floor(least), last = std::floor(at.exact + at.error);
  const double exact = std::floor(at.exact);
  all.push_back(landing_in(exact, at));
  for (double away = 1; all.size() < analysis::kMostLandings && (exact - away >= first || exact + away <= last);
       ++away) {
    for (const double cell : {exact - away, exact + away}) {
      if (cell >= first && cell <= last) all.push_back(landing_in(cell, at));
    }
  }
  return all;
}

std::vector<analysis::Evaluation> OwnCall::evaluations(const Axis& axis, msda_dtype type) const {
  const double value = computed(axis, type);
  if (!(std::abs(value) < kFarthest)) return {};
  return {{"as written", value, landing_in(std::floor(value), {value, 0})}};
}

Place OwnCall::exact_place(const ElementId& id) const {
  Place place;
  for (const Axis& axis : axes(id)) place.push_back(landings(axis, Precision::of(MSDA_FLOAT64)).front());
  return place;
}

Place OwnCall::computed_place(const ElementId& id, msda_dtype type) const {
  Place place;
  for (const Axis& axis : axes(id)) {
    const auto all = evaluations(axis, type);
    place.push_back(all.empty() ? landings(axis, Precision::of(MSDA_FLOAT64)).front() : all.front().landing);
  }
  return place;
}

OwnCells OwnCall::cells_of(const Place& place) const {
  OwnCells cells;
  for (const Landing& landing : place) cells.push_back({landing.low, landing.fraction});
  return cells;
}

std::vector<OwnCells> OwnCall::reachable_cells(size_t output, int64_t flat) const {
  std::vector<OwnCells> places{{}};
  const auto precision = Precision::of(arithmetic());
  for (const Axis& axis : axes({gradients()[output], flat, {}})) {
    std::vector<OwnCells> longer;
    for (const Landing& landing : landings(axis, precision)) {
      for (OwnCells cells : places) {
        cells.push_back({landing.low, std::isfinite(landing.fraction) ? landing.fraction : 0});
        longer.push_back(cells);
      }
    }
    places = std::move(longer);
  }
  return places;
}

// Weights change evenly between the ends of the coordinates' errors, so that one of the ends is the farthest.
void OwnCall::terms(const ElementId& id, const Place& place, const analysis::Precisions& precisions, Cache&,
                    const analysis::VisitTerm& visit) const {
  const OwnCells cells = cells_of(place);
  const auto visit_all = [&](const OwnCells& at, const analysis::VisitTerm& to) {
    terms_in(id.gradient.place(), id.flat, at, precisions.rest, to);
  };
  if (place.empty()) return visit_all(cells, visit);
  std::vector<Term> all;
  visit_all(cells, [&](const Term& term) { all.push_back(term); });
  std::vector<double> errors(all.size(), 0);
  const bool anywhere = std::ranges::any_of(place, [](const Landing& at) { return !std::isfinite(at.error); });
  if (anywhere) std::ranges::fill(errors, INFINITY);
  for (unsigned ends = 0; !anywhere && ends < 1u << place.size(); ++ends) {
    OwnCells moved = cells;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      moved[axis].fraction += (ends >> axis & 1) != 0 ? place[axis].error : -place[axis].error;
    }
    size_t i = 0;
    visit_all(moved, [&](const Term& term) {
      errors[i] = std::max(errors[i], std::abs(term.weight - all[i].weight));
      ++i;
    });
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].error += errors[i];
    visit(all[i]);
  }
}

void OwnCall::computed_terms(const ElementId& id, Cache&, const analysis::VisitTerm& visit) const {
  terms_in(id.gradient.place(), id.flat, cells_of(computed_place(id, arithmetic())), Precision::of(arithmetic()),
           visit);
}

void OwnCall::reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const {
  terms_in(output, flat, cells, Precision::of(MSDA_FLOAT64),
           [&](const Term& term) { std::ranges::for_each(term.inputs, visit); });
}

bool OwnCall::visit_inputs(const ElementId& id, const Place& place, const Precision&, Cache&,
                           const VisitInput& visit) const {
  // Reading cannot be left early, so that what comes after the first hit is passed over.
  bool found = false;
  reads(id.gradient.place(), id.flat, cells_of(place.empty() ? exact_place(id) : place), [&](const Term::Input& input) {
    if (!found) found = visit(inputs_[input.tensor].name, inputs_[input.tensor].tensor, input.flat);
  });
  return found;
}

const char* OwnCall::name_of(analysis::Step step) const {
  return step == analysis::kGradOutput ? "inputs" : Call::name_of(step);
}

std::string OwnCall::name_of_term(Gradient gradient, int64_t number) const {
  if (number < 0) return "what it begins with";
  const OwnOutput& output = described_.outputs()[gradient.place()];
  int64_t place = number / output.addends;
  std::vector<std::string> texts;
  for (size_t i = output.over.size(); i-- > 0;) {
    const int64_t size = std::max<int64_t>(sizes_[output.over[i]], 1);
    texts.insert(texts.begin(), text_of(dimensions()[output.over[i]], place % size));
    place /= size;
  }
  if (output.addends > 1 || texts.empty()) texts.push_back(fmt::format("addend {}", number % output.addends));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string OwnCall::text_of_term(Gradient gradient, int64_t number) const {
  return "the addend of " + name_of_term(gradient, number);
}

std::vector<analysis::Mistake> OwnCall::last_mistakes(const ElementId& id, Cache& cache) const {
  std::vector<analysis::Mistake> mistakes{{"nothing were added", 0}};
  // Its neighbour along each dimension.
  const Index shape = shape_of(id.gradient), at = kernels::index_of(shape, id.flat);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    for (const int64_t step : {-1, 1}) {
      if (at[i] + step < 0 || at[i] + step >= shape[i]) continue;
      const int64_t flat = id.flat + step * stride;
      mistakes.push_back({fmt::format("it were that of {}", fmt::join(text_of_place(id.gradient, flat), ", ")),
                          analysis::float64_value(*this, {id.gradient, flat, {}}, cache)});
    }
  }
  return mistakes;
}

int64_t OwnCall::weights_of(Gradient gradient, int64_t flat) const {
  const OwnOutput& output = described_.outputs()[gradient.place()];
  const Index shape = shape_of(gradient), at = kernels::index_of(shape, flat);
  int64_t number = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (std::ranges::find(output.channels, output.index[i]) == output.channels.end())
      number = number * shape[i] + at[i];
  }
  return number;
}

analysis::Coordinates OwnCall::coordinates_of(Gradient gradient, int64_t flat) const {
  analysis::Coordinates all;
  all.fill(-1);
  const Index at = kernels::index_of(shape_of(gradient), flat);
  for (size_t i = 0; i < at.size(); ++i) all[described_.outputs()[gradient.place()].index[i]] = at[i];
  return all;
}

std::string OwnCall::text_of_sizes() const {
  std::vector<std::string> texts;
  for (const Dimension& dimension : dimensions()) texts.push_back(text_of(dimension, sizes_[dimension.place()]));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<std::string> OwnCall::text_of_place(Gradient gradient, int64_t flat) const {
  std::vector<std::string> texts;
  const Index at = kernels::index_of(shape_of(gradient), flat);
  for (size_t i = 0; i < at.size(); ++i) {
    texts.push_back(text_of(dimensions()[described_.outputs()[gradient.place()].index[i]], at[i]));
  }
  return texts;
}

std::vector<analysis::Cut> OwnCall::cuts() const {
  std::vector<analysis::Cut> all;
  for (const size_t dimension : described_.cuts()) {
    const char* name = dimensions()[dimension].name();
    all.push_back({name, name, sizes_[dimension]});
  }
  return all;
}

std::vector<int> OwnCall::cuts_of(std::string_view tensor) const {
  std::vector<int> axes;
  for (const Gradient gradient : gradients()) {
    const std::vector<size_t>& index = described_.outputs()[gradient.place()].index;
    if (gradient.name() == tensor) axes.assign(index.begin(), index.end());
  }
  // An output that is an input as well has axes of its own: some may stay whole.
  for (const size_t input : present_) {
    if (described_.spec().tensors[input].name == tensor) axes = described_.axes_of(input);
  }
  for (int& axis : axes) {
    const auto cut = std::ranges::find(described_.cuts(), static_cast<size_t>(axis));
    axis = axis < 0 || cut == described_.cuts().end() ? -1 : static_cast<int>(cut - described_.cuts().begin());
  }
  return axes;
}

}  // namespace msda::replay
