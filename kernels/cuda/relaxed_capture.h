// While CUDA streams are captured.
#pragma once

#include <cuda_runtime_api.h>

namespace msda::kernels::cuda {

// Calls that may allocate would invalidate a capture of this or another thread, or be refused, unless this thread is in
// relaxed mode, in which it is while this object lives.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) cudaGetLastError();
  }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // after the first exchange, what it was
};

}  // namespace msda::kernels::cuda
