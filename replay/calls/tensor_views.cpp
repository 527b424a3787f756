#include "replay/calls/tensor_views.h"

#include "analysis/model/owned_side.h"

namespace msda::replay {
namespace {

capture::ElementType element_type_of(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_FLOAT16:
      return capture::ElementType::kFloat16;
    case MSDA_BFLOAT16:
      return capture::ElementType::kBFloat16;
    case MSDA_FLOAT64:
      return capture::ElementType::kFloat64;
    case MSDA_INT32:
      return capture::ElementType::kInt32;
    case MSDA_INT64:
      return capture::ElementType::kInt64;
    default:
      return capture::ElementType::kFloat32;
  }
}

}  // namespace

capture::TensorView view_of(const char* name, const analysis::Tensor& tensor) {
  return {name,
          element_type_of(tensor.dtype),
          tensor.shape,
          {static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)}};
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
