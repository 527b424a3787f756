#include "recorder/adapters/interpolate/upsample_call.h"

#include <array>
#include <cmath>
#include <utility>

namespace msda::adapters {
namespace {

constexpr std::array kAxes{"width", "height", "depth"};  // the last dimension first

}  // namespace

Decoded upsample_call(const std::string& mode, DeviceTensor grad_input, DeviceTensor grad_output) {
  const std::vector<int64_t> in = grad_input.shape;
  Call call{.inputs = {std::move(grad_output)}, .outputs = {std::move(grad_input)}};
  call.facts.texts["mode"] = mode;
  for (size_t axis = 0; axis + 2 < in.size(); ++axis) {
    call.facts.integers[std::string("input_") + kAxes[axis]] = in[in.size() - 1 - axis];
  }
  return checked(std::move(call));
}

std::optional<Refusal> add_scale(Call& call, size_t axis, double scale, bool is_from_sizes) {
  if (is_from_sizes) return std::nullopt;
  if (!(scale > 0) || !std::isfinite(scale)) return Refusal{"a ratio of the sizes that is not above 0"};
  call.facts.reals[std::string("scale_") + kAxes[axis]] = scale;
  return std::nullopt;
}

std::optional<UpsampleSignature> take_upsample_types(Mangled& name) {
  if (!name.take("I")) return std::nullopt;
  const auto type = name.take_element_type();
  if (!type) return std::nullopt;
  const bool wide = name.take("d");
  if (!wide && !name.take("f")) return std::nullopt;
  return UpsampleSignature{*type, wide, false};
}

Mangled symbol_after(std::string_view symbol, std::string_view identifier) {
  const size_t at = symbol.find(identifier);
  return Mangled(at == symbol.npos || !symbol.starts_with("_Z") ? "" : symbol.substr(at + identifier.size()));
}

}  // namespace msda::adapters
