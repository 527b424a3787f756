#include "analysis/operators/msda/call.h"

namespace msda::analysis {

msda_tensor abi_tensor(const Tensor& tensor) {
  // The C ABI uses one type for inputs and results; it writes no input.
  return msda_contiguous(const_cast<void*>(tensor.data), tensor.dtype, static_cast<int32_t>(tensor.shape.size()),
                         tensor.shape.data());
}

AbiCall abi_call(const MsdaCall& call, const Conventions& conventions) {
  AbiCall abi{};
  abi.call.dialect = conventions.dialect;
  abi.call.padding = conventions.padding;
  abi.call.align_corners = conventions.align_corners;
  abi.call.value = abi_tensor(call.value);
  abi.call.spatial_shapes = abi_tensor(call.spatial_shapes);
  abi.call.sampling_locations = abi_tensor(call.sampling_locations);
  abi.call.attention_weights = abi_tensor(call.attention_weights);
  abi.grad_output = abi_tensor(call.grad_output);
  return abi;
}

AbiCall abi_queries(const MsdaCall& call, const Conventions& conventions, int64_t b, int64_t q, int64_t count) {
  AbiCall abi = abi_call(call, conventions);
  const auto narrow = [](msda_tensor& tensor, int dimension, int64_t at, int64_t length, size_t element_size) {
    tensor.data = static_cast<char*>(tensor.data) + at * tensor.stride[dimension] * static_cast<int64_t>(element_size);
    tensor.shape[dimension] = length;
  };
  for (msda_tensor* tensor :
       {&abi.call.value, &abi.call.sampling_locations, &abi.call.attention_weights, &abi.grad_output}) {
    const size_t size = tensor->dtype == MSDA_FLOAT64 ? 8 : tensor->dtype == MSDA_FLOAT32 ? 4 : 2;
    narrow(*tensor, 0, b, 1, size);
    if (tensor != &abi.call.value) narrow(*tensor, 1, q, count, size);
  }
  return abi;
}

}  // namespace msda::analysis
