// What the adapters of PyTorch's interpolate share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {

// Returns the conventions that all modes have, for a call with its two tensors. `in` and `out` are without batches and
// channels.
Decoded upsample_call(const std::string& mode, DeviceTensor grad_input, DeviceTensor grad_output);

// Returns the scale factor of an axis, the last dimension first, unless the ratio is that of the sizes.
std::optional<Refusal> add_scale(Call& call, size_t axis, double scale, bool is_from_sizes);

struct UpsampleSignature {
  msda_dtype type;
  bool wide;   // ratios are double
  bool exact;  // nearest-exact
};

// Returns the types that follow in the symbol, from the identifier on; what follows them is left.
std::optional<UpsampleSignature> take_upsample_types(Mangled& name);

// Returns what follows the identifier in a mangled name.
Mangled symbol_after(std::string_view symbol, std::string_view identifier);

}  // namespace msda::adapters
