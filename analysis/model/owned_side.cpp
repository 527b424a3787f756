#include "analysis/model/owned_side.h"

#include "analysis/model/evaluate.h"
#include "kernels/names.h"

namespace msda::analysis {

size_t bytes_of(const Tensor& tensor) {
  return static_cast<size_t>(tensor.elements() * kernels::bytes_of(tensor.dtype));
}

msda_dtype result_type(const Call& call, const Side& recorded, Gradient gradient, msda_mode mode) {
  if (mode == MSDA_MODE_FLOAT64) return MSDA_FLOAT64;
  if (const Tensor& tensor = recorded.of(gradient)) return tensor.dtype;
  if (const Tensor input = call.input_of(gradient)) return input.dtype;
  return call.arithmetic();
}

OwnedSide uncomputed_side(const Call& call, const std::string& name, msda_mode mode, const Side& types,
                          std::shared_ptr<const Call> alternative) {
  OwnedSide owned;
  owned.side.name = name;
  owned.side.alternative = std::move(alternative);
  for (const Gradient gradient : call.gradients()) {
    const auto at = gradient.place();
    Tensor& tensor = owned.side.tensors[at];
    tensor.dtype = result_type(call, types, gradient, mode);
    tensor.shape = call.shape_of(gradient);
    owned.memory[at].reset(
        new std::byte[bytes_of(tensor)]);  // not make_unique, which would clear it: the kernel writes every byte
    tensor.data = owned.memory[at].get();
    owned.side.arithmetic[at] = mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : call.arithmetic();
  }
  return owned;
}

void compute_on_cpu(const Call& recorded, const msda_options& options, OwnedSide& owned) {
  compute_gradients(owned.side.version_of(recorded), options, owned.side.tensors);
}

}  // namespace msda::analysis
