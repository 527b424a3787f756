#include "replay/calls/tensor_views.h"

#include "analysis/model/owned_side.h"

namespace msda::replay {
capture::TensorView view_of(const char* name, const analysis::Tensor& tensor) {
  return {{name, tensor.dtype, tensor.shape}, {static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)}};
}

std::vector<capture::TensorView> gradients_of(const analysis::Call& call, const analysis::Tensor* tensors) {
  std::vector<capture::TensorView> views;
  for (const auto gradient : call.gradients()) {
    const analysis::Tensor& tensor = tensors[gradient.place()];
    if (tensor) views.push_back(view_of(gradient.name(), tensor));
  }
  return views;
}

}  // namespace msda::replay
