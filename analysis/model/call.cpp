#include "analysis/model/call.h"

#include <cmath>

namespace msda::analysis {

ElementId Call::element_id(Gradient gradient, int64_t flat) const {
  return {gradient, flat, Tensor{nullptr, MSDA_FLOAT32, shape_of(gradient)}.index_of(flat)};
}

std::string Call::text_of(Dimension dimension, int64_t index) const {
  if (dimension.is_axis()) return std::string(1, axis_name(static_cast<size_t>(index)));
  return std::string(dimension.name()) + " " + std::to_string(index);
}

Axis Call::rounded(const Axis& axis, const Reduction* reduction) const {
  return reduction == nullptr ? axis : Axis{reduction->round(kLocations, axis.location), axis.size, axis.stored};
}

Tensor Call::input_of(Gradient gradient) const {
  std::string_view name = gradient.name();
  if (name.starts_with("grad_")) name.remove_prefix(std::string_view("grad_").size());
  for (const NamedTensor& input : inputs()) {
    if (input.name == name) return input.tensor;
  }
  return {};
}

CoordinateMap Call::coordinate_map(const Conventions& side_conventions, int32_t size) const {
  const Precision precision = Precision::of(MSDA_FLOAT64);
  const auto pixel = [&](double location) {
    return coordinate(side_conventions, Axis{location, size, MSDA_FLOAT64}, precision).exact;
  };
  const double offset = pixel(0);
  return {pixel(1) - offset, offset};
}

double Call::value_in(const Arithmetic& by, Gradient gradient, int64_t flat) const {
  const msda_mode mode = by.mode == MSDA_MODE_FLOAT64 ? MSDA_MODE_FLOAT64 : MSDA_MODE_DETERMINISTIC;
  for (const Intermediate& tensor : intermediates()) {
    if (tensor.gradient != gradient) continue;
    const int64_t width = tensor.width();
    return numbers_of(tensor, by.conventions, flat / width, 1, mode, 1)[static_cast<size_t>(flat % width)];
  }
  return NAN;
}

}  // namespace msda::analysis
