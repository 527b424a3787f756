#include "kernels/cuda/work.h"

#include "kernels/cuda/graph_cache.h"

namespace msda::kernels::cuda {

void Work::enqueue() {
  const bool as_graph = sequence_.size() > 1 && target_.can_keep() && launch_as_graph(sequence_, target_);
  for (size_t i = 0; !as_graph && i < sequence_.size(); ++i) {
    const Launch& launch = sequence_.launch(i);
    check(cudaLaunchKernel(launch.kernel, launch.grid, dim3(static_cast<unsigned>(launch.threads)),
                           sequence_.parameters(i), static_cast<size_t>(launch.shared_bytes), target_.stream()),
          launch.name);
  }
  sequence_.clear();
}

}  // namespace msda::kernels::cuda
