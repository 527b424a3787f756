// An instantiated CUDA graph of a sequence of kernels. Its own errors are cleared: kernels can be launched without it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/cuda/common/sequence.h"
#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {

// Not for several threads at a time. Its launches run one after the other, on different streams, too.
class Graph {
 public:
  // Null if that fails.
  static std::unique_ptr<Graph> of(Sequence& sequence, Target& target);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Only while the context lives in which it was made, unless it is abandoned.
  ~Graph();
  // Leaves it to the driver, which may have destroyed it with the context.
  void abandon();

  bool has_shape_of(const Sequence& sequence) const { return set_.has_shape_of(sequence); }
  // A sequence of the same shape, whose content it takes; only what differs from its own, bit for bit, is set. If that
  // fails, nothing is enqueued, and the graph is of no more use.
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
