// What the adapters of PyTorch's interpolate share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {

// The conventions that all modes have, of a call with its two tensors. `in` and `out` without batches and channels.
Decoded upsample_call(const std::string& mode, DeviceTensor grad_input, DeviceTensor grad_output);

// The scale factor of an axis, the last dimension first, unless the ratio is that of the sizes.
std::optional<Refusal> add_scale(Call& call, size_t axis, double scale, bool is_from_sizes);

struct UpsampleSignature {
  msda_dtype type;
  bool wide;   // ratios are double
  bool exact;  // nearest-exact
};

// The types, of the symbol from the identifier on; what follows them is left.
std::optional<UpsampleSignature> take_upsample_types(Mangled& name);

// What follows the identifier in a mangled name.
Mangled symbol_after(std::string_view symbol, std::string_view identifier);

}  // namespace msda::adapters
