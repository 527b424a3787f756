#include "analysis/model/device_call.h"

#include "kernels/names.h"

namespace msda::analysis {

uint64_t elements_of(const msda_tensor& tensor) {
  uint64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= static_cast<uint64_t>(tensor.shape[i]);
  return count;
}

uint64_t bytes_of(const msda_tensor& tensor) {
  return elements_of(tensor) * static_cast<uint64_t>(kernels::bytes_of(tensor.dtype));
}

void cut(msda_tensor& tensor, int dimension, int64_t first, int64_t count) {
  if (tensor.data != nullptr) {
    tensor.data = static_cast<char*>(tensor.data) + first * tensor.stride[dimension] * kernels::bytes_of(tensor.dtype);
  }
  tensor.shape[dimension] = count;
}

}  // namespace msda::analysis
