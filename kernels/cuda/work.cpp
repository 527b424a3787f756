#include "kernels/cuda/work.h"

#include "kernels/cuda/graph_cache.h"

namespace msda::kernels::cuda {

bool Work::can_fork() const {
  cudaStreamCaptureStatus status{};
  if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess) return status == cudaStreamCaptureStatusNone;
  cudaGetLastError();  // fails for the legacy stream while another stream is captured
  return false;
}

void Work::enqueue() {
  const bool as_graph = sequence_.size() > 1 && can_fork() && launch_as_graph(sequence_, stream_);
  for (size_t i = 0; !as_graph && i < sequence_.size(); ++i) {
    const Launch& launch = sequence_.launch(i);
    check(cudaLaunchKernel(launch.kernel, launch.grid, dim3(static_cast<unsigned>(launch.threads)),
                           sequence_.parameters(i), static_cast<size_t>(launch.shared_bytes), stream_),
          launch.name);
  }
  sequence_.clear();
}

}  // namespace msda::kernels::cuda
