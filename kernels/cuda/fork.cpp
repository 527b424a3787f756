#include "kernels/cuda/fork.h"

#include "kernels/cuda/memory.h"

namespace msda::kernels::cuda {

bool can_fork(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status == cudaStreamCaptureStatusNone;
  cudaGetLastError();  // fails for the legacy stream while another stream is captured
  return false;
}

Fork::Fork(cudaStream_t stream) : stream_(stream) {
  try {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventRecord(event_, stream_), "cudaEventRecord");
    check(cudaStreamWaitEvent(side_, event_, 0), "cudaStreamWaitEvent");
  } catch (...) {
    destroy();
    throw;
  }
}

void Fork::join() {
  joined_ = true;
  check(cudaEventRecord(event_, side_), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream_, event_, 0), "cudaStreamWaitEvent");
}

Fork::~Fork() {
  if (!joined_ && cudaEventRecord(event_, side_) == cudaSuccess) cudaStreamWaitEvent(stream_, event_, 0);
  destroy();
}

// Work under way continues; the device frees the rest when it is done.
void Fork::destroy() {
  if (side_ != nullptr) cudaStreamDestroy(side_);
  if (event_ != nullptr) cudaEventDestroy(event_);
  cudaGetLastError();
}

}  // namespace msda::kernels::cuda
