#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {

bool Target::is_captured() {
  if (!is_captured_) {
    cudaStreamCaptureStatus status{};
    const bool is_told = cudaStreamIsCapturing(stream_, &status) == cudaSuccess;
    if (!is_told) cudaGetLastError();  // fails for the legacy stream while another stream is captured
    is_captured_ = !is_told || status != cudaStreamCaptureStatusNone;
  }
  return *is_captured_;
}

const Context& Target::context() {
  if (!context_ || context_->number == 0) context_ = current_context();  // a thread's first call may make it current
  return *context_;
}

const Device& Target::device() {
  if (!device_) device_.emplace();
  return *device_;
}

bool Target::can_keep() {
  if (!can_keep_) can_keep_ = !is_captured() && find_numbers();
  return *can_keep_;
}

bool Target::find_numbers() {
  if (cudaStreamGetId(stream_, &stream_number_) == cudaSuccess) return context().number != 0;
  cudaGetLastError();
  return false;
}

}  // namespace msda::kernels::cuda
