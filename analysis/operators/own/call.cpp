#include "analysis/operators/own/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace msda::analysis {
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

OwnCall::OwnCall(std::shared_ptr<const OwnDefinition> definition) : definition_(std::move(definition)), parts_{{}} {
  for (const Dimension& dimension : definition_->schema().dimensions()) parts_.push_back({dimension});
}

std::vector<NamedTensor> OwnCall::inputs() const {
  std::vector<NamedTensor> all;
  for (const NamedTensor& input : definition_->inputs()) {
    if (kernels::is_float(input.tensor.dtype)) all.push_back(input);
  }
  return all;
}

msda_dtype OwnCall::arithmetic() const {
  return definition_->schema().rounds_to_tensors() ? inputs().front().tensor.dtype : Call::arithmetic();
}

bool OwnCall::adds_to_output() const {
  return std::ranges::any_of(
      gradients(), [&](Gradient gradient) { return definition_->schema().begins_with_itself(gradient.place()); });
}

Landings OwnCall::landings(const Axis& axis, const Precision& precision) const {
  const Coordinate at = definition_->coordinate(axis, precision);
  Landings all;
  if (!(std::abs(at.exact) < kFarthest) || !(at.error < kFarthest)) {
    const bool known = std::abs(at.exact) < kFarthest;
    all.push_back(landing_in(known ? std::floor(at.exact) : 0, {at.exact, INFINITY}));
    return all;
  }
  const double first = std::floor(at.exact - at.error), last = std::floor(at.exact + at.error);
  const double exact = std::floor(at.exact);
  all.push_back(landing_in(exact, at));
  for (double away = 1; all.size() < kMostLandings && (exact - away >= first || exact + away <= last); ++away) {
    for (const double cell : {exact - away, exact + away}) {
      if (cell >= first && cell <= last) all.push_back(landing_in(cell, at));
    }
  }
  return all;
}

std::vector<Evaluation> OwnCall::evaluations(const Axis& axis, msda_dtype type) const {
  const double computed = definition_->computed(axis, type);
  if (!(std::abs(computed) < kFarthest)) return {};
  return {{"as written", computed, landing_in(std::floor(computed), {computed, 0})}};
}

Place OwnCall::exact_place(const ElementId& id) const {
  Place place;
  for (const Axis& axis : axes(id)) place.push_back(landings(axis, Precision::of(MSDA_FLOAT64)).front());
  return place;
}

Place OwnCall::computed_place(const ElementId& id, msda_dtype type) const {
  Place place;
  for (const Axis& axis : axes(id)) {
    const auto computed = evaluations(axis, type);
    place.push_back(computed.empty() ? landings(axis, Precision::of(MSDA_FLOAT64)).front() : computed.front().landing);
  }
  return place;
}

OwnCells OwnCall::cells_of(const Place& place) const {
  OwnCells cells;
  for (const Landing& landing : place) cells.push_back({landing.low, landing.fraction});
  return cells;
}

int64_t OwnCall::weights_of(Gradient gradient, int64_t flat) const {
  const auto dimensions = definition_->schema().dimensions_of(gradient.place()),
             channels = definition_->schema().channels_of(gradient.place());
  const Index shape = shape_of(gradient), at = kernels::index_of(shape, flat);
  int64_t number = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (std::ranges::find(channels, dimensions[i]) == channels.end()) number = number * shape[i] + at[i];
  }
  return number;
}

Coordinates OwnCall::coordinates_of(Gradient gradient, int64_t flat) const {
  Coordinates all;
  all.fill(-1);
  const auto dimensions = definition_->schema().dimensions_of(gradient.place());
  const Index at = kernels::index_of(shape_of(gradient), flat);
  for (size_t i = 0; i < at.size(); ++i) all[dimensions[i]] = at[i];
  return all;
}

std::string OwnCall::text_of_sizes() const {
  std::vector<std::string> texts;
  for (const Dimension& dimension : dimensions())
    texts.push_back(fmt::format("{} {}", dimension.name(), sizes()[dimension.place()]));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<std::string> OwnCall::text_of_place(Gradient gradient, int64_t flat) const {
  std::vector<std::string> texts;
  const auto dimensions_of = definition_->schema().dimensions_of(gradient.place());
  const Index at = kernels::index_of(shape_of(gradient), flat);
  for (size_t i = 0; i < at.size(); ++i) texts.push_back(text_of(dimensions()[dimensions_of[i]], at[i]));
  return texts;
}

std::vector<Cut> OwnCall::cuts() const {
  std::vector<Cut> all;
  for (const size_t dimension : definition_->schema().cuts()) {
    const char* name = dimensions()[dimension].name();
    all.push_back({name, name, sizes()[dimension]});
  }
  return all;
}

Kept OwnCall::kept_of(std::string_view tensor, const Kept& kept) const {
  const auto whole = [&](std::string_view name) {
    for (const NamedTensor& input : definition_->inputs()) {
      if (input.name == name) return input.tensor.shape;
    }
    const auto output = std::ranges::find_if(gradients(), [&](Gradient gradient) { return gradient.name() == name; });
    if (output == gradients().end()) throw std::out_of_range("no tensor " + std::string(name));
    return shape_of(*output);
  };
  const Index shape = whole(tensor);
  const std::vector<int> axes = definition_->axes_of(tensor);
  const auto& cuts = definition_->schema().cuts();
  Kept result;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto cut = axes[i] < 0 ? cuts.end() : std::ranges::find(cuts, static_cast<size_t>(axes[i]));
    result.push_back(cut == cuts.end() ? all_indices(shape[i]) : kept[static_cast<size_t>(cut - cuts.begin())]);
  }
  return result;
}

std::vector<int64_t> OwnCall::cut_indices(const ElementId& id) const {
  const Coordinates at = coordinates_of(id.gradient, id.flat);
  std::vector<int64_t> indices;
  for (const size_t dimension : definition_->schema().cuts()) indices.push_back(at[dimension]);
  return indices;
}

std::shared_ptr<const Call> OwnCall::with_tensors(std::vector<Tensor> tensors) const {
  auto call = std::make_shared<OwnCall>(definition_->with_inputs(std::move(tensors)));
  return call;
}

std::shared_ptr<const Call> OwnCall::with_inputs(std::span<const OwnedTensor> given) const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : definition_->inputs()) tensors.push_back(tensor_named(given, input.name).view());
  return with_tensors(std::move(tensors));
}

Slices OwnCall::slices(const CallSizes& sizes) const {
  if (sizes.batch || sizes.heads || sizes.queries) {
    throw std::invalid_argument(fmt::format("{} has no batches, heads or queries: simulate it with its own sizes",
                                            definition_->schema().name()));
  }
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : definition_->inputs()) {
    tensors.push_back(input.tensor);
    if (kernels::is_float(input.tensor.dtype)) tensors.back().data = nullptr;
  }
  return {1, with_tensors(std::move(tensors))};
}

std::shared_ptr<const Call> OwnCall::with_values(std::span<const Tensor> values) const {
  std::vector<Tensor> tensors;
  size_t next = 0;
  for (const NamedTensor& input : definition_->inputs()) {
    tensors.push_back(kernels::is_float(input.tensor.dtype) ? values[next++] : input.tensor);
  }
  return with_tensors(std::move(tensors));
}

std::shared_ptr<const Call> OwnCall::outline() const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : definition_->inputs())
    tensors.push_back({nullptr, input.tensor.dtype, input.tensor.shape});
  return with_tensors(std::move(tensors));
}

}  // namespace msda::analysis
