// An instantiated CUDA graph of a sequence of kernels. Clears its own errors: kernels can be launched without it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/cuda/common/sequence.h"
#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {

// Not thread-safe. Its launches run one after the other, on different streams, too.
class Graph {
 public:
  // Returns null if that fails.
  static std::unique_ptr<Graph> of(Sequence& sequence, Target& target);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Must end before the context in which it was made, unless it is abandoned.
  ~Graph();
  // Leaves the graph to the driver, which may have destroyed it with the context.
  void abandon();

  bool has_shape_of(const Sequence& sequence) const { return set_.has_shape_of(sequence); }
  // Launches a sequence of the same shape, and takes its content; sets only what differs from its own, bit for bit. If
  // that fails, nothing is enqueued, and the graph must not be used again.
  bool launch(Sequence& sequence, Target& target);

 private:
  Graph() = default;
  bool make(Sequence& sequence, Target& target);
  bool set(Sequence& sequence, Target& target);

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t instance_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
  Sequence set_;  // what the instance launches
};

}  // namespace msda::kernels::cuda
