#include "kernels/cuda/common/call.h"

#include <fmt/format.h>

#include <atomic>

#include "kernels/cuda/common/convert.h"
#include "kernels/names.h"

namespace msda::kernels::cuda {

void need_device() {
  static std::atomic<bool> is_there{false};
  if (is_there) return;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  is_there = error == cudaSuccess && count > 0;
  if (is_there) return;
  cudaGetLastError();
  throw Unavailable(fmt::format("no GPU can be used here: {}", cudaGetErrorString(error)));
}

msda_dtype common_dtype(std::initializer_list<const msda_tensor*> inputs, bool float64_inputs, bool float64) {
  if (float64_inputs) return MSDA_FLOAT64;
  if (float64) return MSDA_FLOAT32;
  const msda_dtype dtype = (*inputs.begin())->dtype;
  for (const msda_tensor* input : inputs) {
    if (input->dtype != dtype) return MSDA_FLOAT32;
  }
  return dtype;
}

Input::Input(const msda_tensor& tensor, msda_dtype dtype) : tensor_(tensor), dtype_(dtype) {
  is_ready_ = tensor.dtype == dtype && is_contiguous(tensor);
  for (int i = 0; i < tensor.rank; ++i) count_ *= tensor.shape[i];
}
void Input::want(Workspace& workspace) {
  if (!is_ready_) workspace.want(memory_, count_, bytes_of(dtype_));
}
void Input::make(Work& work) {
  if (is_ready_) return;
  switch (dtype_) {
    case MSDA_FLOAT64:
      return make_contiguous(tensor_, static_cast<double*>(memory_), work);
    case MSDA_FLOAT32:
      return make_contiguous(tensor_, static_cast<float*>(memory_), work);
    default:
      return make_contiguous(tensor_, static_cast<uint16_t*>(memory_), work);  // the tensor's own type
  }
}

Output::Output(const msda_tensor* tensor, bool float64, bool may_be_in_place) : float64_(float64) {
  if (tensor == nullptr) return;
  tensor_ = *tensor;
  wanted_ = true;
  in_place_ = may_be_in_place && is_contiguous(tensor_);
  for (int i = 0; i < tensor_.rank; ++i) count_ *= tensor_.shape[i];
}
void Output::want(Workspace& workspace) {
  if (wanted_ && !in_place_) workspace.want(memory_, count_, bytes_of(float64_ ? MSDA_FLOAT64 : MSDA_FLOAT32));
}
Result Output::result() const {
  if (!wanted_) return {nullptr, MSDA_FLOAT32};
  if (in_place_) return {tensor_.data, tensor_.dtype};
  return {memory_, float64_ ? MSDA_FLOAT64 : MSDA_FLOAT32};
}
void Output::store(Work& work) const {
  if (!wanted_ || in_place_) return;
  if (float64_) {
    spread(static_cast<const double*>(memory_), tensor_, work);
  } else {
    spread(static_cast<const float*>(memory_), tensor_, work);
  }
}

}  // namespace msda::kernels::cuda
