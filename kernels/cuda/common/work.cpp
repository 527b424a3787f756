#include "kernels/cuda/common/work.h"

#include "kernels/cuda/common/graph_cache.h"
#include "kernels/cuda/common/kept_memory.h"

namespace msda::kernels::cuda {

Work::~Work() {
  if (left_) leave(std::move(*left_), target_);
}

void* Work::allocate(size_t bytes) {
  if (left_ || bytes > kMostKeptBytes || !target_.can_keep()) return memory_.emplace_back(bytes, target_).data();
  left_.emplace(take_kept(target_));
  if (left_->bytes() < bytes) {
    left_.reset();  // first, so that the larger one may lie there
    left_.emplace(bytes, target_);
  }
  return left_->data();
}

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
