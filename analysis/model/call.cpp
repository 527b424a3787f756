#include "analysis/model/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "analysis/model/dialects.h"
#include "analysis/model/forward.h"
#include "analysis/model/hypotheses.h"
#include "analysis/model/kernels.h"
#include "analysis/model/stages.h"

namespace msda::analysis {

const Dialects* Call::dialects() const { return dynamic_cast<const Dialects*>(this); }
const Forward* Call::forward() const {
  const auto* forward = dynamic_cast<const Forward*>(this);
  return forward != nullptr && forward->has_forward() ? forward : nullptr;
}
const Hypotheses* Call::hypotheses() const { return dynamic_cast<const Hypotheses*>(this); }
const Kernels* Call::kernels() const { return dynamic_cast<const Kernels*>(this); }
const Stages* Call::stages() const { return dynamic_cast<const Stages*>(this); }

std::string Call::arithmetic_name() const { return dialects() != nullptr ? dialects()->dialect() : operator_name(); }

msda_dtype Call::arithmetic() const {
  for (const NamedTensor& input : inputs()) {
    if (input.tensor.dtype == MSDA_FLOAT64) return MSDA_FLOAT64;
  }
  return MSDA_FLOAT32;
}

bool Call::visit_stages(const ElementId& id, const Precision&, Cache& cache, const VisitStage& visit) const {
  const Addends all = addends(id, cache);
  if (visit("addends", all.values)) return true;
  double sum = 0;
  for (const double addend : all.values) sum = rounded_to(sum + addend, arithmetic());
  return visit(id.gradient.name(), {rounded_to(sum * all.scale, arithmetic())});
}

const char* Dependencies::name_of(Step step) const {
  constexpr const char* kNames[] = {"grad_output",
                                    "attention_weights",
                                    "value",
                                    "coordinates",
                                    "interpolation_weights",
                                    "sampled_value",
                                    "grad_output*attention_weights",
                                    "addends",
                                    "result",
                                    "sums"};  // by bit
  return kernels::look_up(kNames, std::countr_zero(static_cast<Steps>(step)), "?");
}

ElementId Call::element_id(Gradient gradient, int64_t flat) const {
  return {gradient, flat, kernels::index_of(shape_of(gradient), flat)};
}

std::string Words::text_of(Dimension dimension, int64_t index) const {
  if (dimension.is_axis()) return std::string(1, axis_name(static_cast<size_t>(index)));
  return std::string(dimension.name()) + " " + std::to_string(index);
}

Axis Call::rounded(const Axis& axis, const Narrowing* narrowing) const {
  if (narrowing == nullptr) return axis;
  return {narrowing->round(kLocations, axis.location), axis.size, axis.stored, axis.number, axis.flat};
}

Tensor Call::input_of(Gradient gradient) const {
  std::string_view name = gradient.name();
  if (name.starts_with("grad_")) name.remove_prefix(std::string_view("grad_").size());
  for (const NamedTensor& input : inputs()) {
    if (input.name == name) return input.tensor;
  }
  return {};
}

CoordinateMap Call::coordinate_map(const Axis& axis) const {
  const Precision precision = Precision::of(MSDA_FLOAT64);
  const auto pixel = [&](double location) {
    return coordinate(Axis{location, axis.size, MSDA_FLOAT64, axis.number, axis.flat}, precision).exact;
  };
  const double offset = pixel(0);
  return {pixel(1) - offset, offset};
}

Kept Call::kept_of(std::string_view tensor, const Kept& kept) const {
  Index shape;
  for (const NamedTensor& input : all_inputs()) {
    if (input.name == tensor) shape = input.tensor.shape;
  }
  for (const Gradient gradient : gradients()) {
    if (gradient.name() == tensor) shape = shape_of(gradient);
  }
  const std::vector<int> cuts = cuts_of(tensor);
  Kept result;
  for (size_t i = 0; i < shape.size(); ++i) {
    result.push_back(cuts[i] < 0 ? all_indices(shape[i]) : kept[static_cast<size_t>(cuts[i])]);
  }
  return result;
}

std::vector<int64_t> Call::cut_indices(const ElementId& id) const {
  const Index at = kernels::index_of(shape_of(id.gradient), id.flat);
  const std::vector<int> axes = cuts_of(id.gradient.name());
  std::vector<int64_t> indices(cuts().size(), -1);
  for (size_t i = 0; i < at.size(); ++i) {
    if (axes[i] >= 0) indices[static_cast<size_t>(axes[i])] = at[i];
  }
  return indices;
}

std::shared_ptr<const Call> Call::with_inputs(std::span<const OwnedTensor> given) const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : all_inputs()) tensors.push_back(tensor_named(given, input.name).view());
  return with_tensors(std::move(tensors));
}

std::shared_ptr<const Call> Call::with_values(std::span<const Tensor> values) const {
  std::vector<Tensor> tensors;
  size_t next = 0;
  for (const NamedTensor& input : all_inputs()) {
    tensors.push_back(kernels::is_float(input.tensor.dtype) ? values[next++] : input.tensor);
  }
  return with_tensors(std::move(tensors));
}

Slices Call::slices(const CallSizes& sizes) const {
  if (sizes.batch || sizes.heads || sizes.queries) {
    throw std::invalid_argument(
        fmt::format("{} has no batches, heads or queries: simulate it with its own sizes", operator_name()));
  }
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : all_inputs()) tensors.push_back(input.tensor);
  return {1, with_tensors(std::move(tensors))};
}

std::shared_ptr<const Call> Call::outline() const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& input : all_inputs()) tensors.push_back({nullptr, input.tensor.dtype, input.tensor.shape});
  return with_tensors(std::move(tensors));
}

std::vector<int64_t> Call::some_of_family(Gradient gradient, int64_t, int64_t most) const {
  const int64_t all = kernels::elements_of(shape_of(gradient)), count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) elements.push_back(i * all / count);
  return elements;
}

double Call::value_in(const Arithmetic& by, Gradient gradient, int64_t flat) const {
  if (stages() == nullptr) return NAN;
  const msda_mode mode = by.mode == MSDA_MODE_FLOAT64 ? MSDA_MODE_FLOAT64 : MSDA_MODE_DETERMINISTIC;
  for (const Intermediate& tensor : stages()->intermediates()) {
    if (tensor.gradient != gradient) continue;
    const int64_t width = tensor.width();
    return stages()->numbers_of(tensor, flat / width, 1, mode, 1)[static_cast<size_t>(flat % width)];
  }
  return NAN;
}

}  // namespace msda::analysis
