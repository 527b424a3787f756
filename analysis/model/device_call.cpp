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

void keep_part(msda_tensor& tensor, int dimension, int64_t first, int64_t count) {
  if (tensor.data != nullptr) {
    tensor.data = static_cast<char*>(tensor.data) + first * tensor.stride[dimension] * kernels::bytes_of(tensor.dtype);
  }
  tensor.shape[dimension] = count;
}

uint64_t DeviceCall::device_bytes() const {
  uint64_t bytes = allocated(*this);
  for (const auto* list : {&inputs, &results}) {
    for (const msda_tensor& tensor : *list) bytes += bytes_of(tensor);
  }
  return bytes;
}

std::vector<DeviceCall> DeviceCall::halves() const {
  for (const int dimension : divisible) {
    const int64_t all = inputs.front().shape[dimension], half = all / 2;
    if (all < 2) continue;
    std::vector<DeviceCall> two{*this, *this};
    for (auto* list : {&two[0].inputs, &two[0].results}) {
      for (msda_tensor& tensor : *list) keep_part(tensor, dimension, 0, half);
    }
    for (auto* list : {&two[1].inputs, &two[1].results}) {
      for (msda_tensor& tensor : *list) keep_part(tensor, dimension, half, all - half);
    }
    return two;
  }
  return {};
}

}  // namespace msda::analysis
