// While CUDA streams are captured.
#pragma once

#include <cuda_runtime_api.h>

namespace msda::kernels::cuda {

// Calls that may allocate would invalidate a capture of this or another thread, or be refused, unless this thread is in
// relaxed mode, in which it is from begin() until this object ends.
class RelaxedCapture {
 public:
  RelaxedCapture() = default;
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (has_begun_) exchange();
  }
  void begin() {
    if (!has_begun_) exchange();
    has_begun_ = true;
  }

 private:
  void exchange() {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) cudaGetLastError();
  }
  bool has_begun_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // after the first exchange, what it was
};

}  // namespace msda::kernels::cuda
