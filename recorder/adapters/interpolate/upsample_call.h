// What the adapters of this folder share.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {

inline constexpr std::array kUpsampleAxes{"width", "height", "depth"};  // the last dimension first

// Returns a call with its two tensors, and the conventions that all modes have.
inline Decoded upsample_call(const std::string& mode, DeviceTensor grad_input, DeviceTensor grad_output) {
  const std::vector<int64_t> in = grad_input.shape;
  Call call{.inputs = {std::move(grad_output)}, .outputs = {std::move(grad_input)}};
  call.facts.texts["mode"] = mode;
  for (size_t axis = 0; axis + 2 < in.size(); ++axis) {
    call.facts.integers[std::string("input_") + kUpsampleAxes[axis]] = in[in.size() - 1 - axis];
  }
  return checked(std::move(call));
}

// Records the scale factor of an axis, the last dimension first, unless the ratio is that of the sizes.
inline std::optional<Refusal> add_scale(Call& call, size_t axis, double scale, bool is_from_sizes) {
  if (is_from_sizes) return std::nullopt;
  if (!(scale > 0) || !std::isfinite(scale)) return Refusal{"a ratio of the sizes that is not above 0"};
  call.facts.reals[std::string("scale_") + kUpsampleAxes[axis]] = scale;
  return std::nullopt;
}

struct UpsampleSignature {
  msda_dtype type;
  bool wide;   // ratios are double
  bool exact;  // nearest-exact
};

// Returns the types that follow in the symbol, from the identifier on; what follows them is left.
inline std::optional<UpsampleSignature> take_upsample_types(Mangled& name) {
  if (!name.take("I")) return std::nullopt;
  const auto type = name.take_element_type();
  if (!type) return std::nullopt;
  const bool wide = name.take("d");
  if (!wide && !name.take("f")) return std::nullopt;
  return UpsampleSignature{*type, wide, false};
}

// Returns what follows the identifier in a mangled name.
inline Mangled symbol_after(std::string_view symbol, std::string_view identifier) {
  const size_t at = symbol.find(identifier);
  return Mangled(at == symbol.npos || !symbol.starts_with("_Z") ? "" : symbol.substr(at + identifier.size()));
}

}  // namespace msda::adapters
