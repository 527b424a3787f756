#include "kernels/cuda/common/graph.h"

#include <utility>

namespace msda::kernels::cuda {
namespace {

bool succeeds(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

cudaKernelNodeParams node_of(Sequence& sequence, size_t node) {
  const Launch& launch = sequence.launch(node);
  cudaKernelNodeParams parameters{};
  parameters.func = const_cast<void*>(launch.kernel);
  parameters.gridDim = launch.grid;
  parameters.blockDim = dim3(static_cast<unsigned>(launch.threads));
  parameters.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  parameters.kernelParams = sequence.parameters(node);
  return parameters;
}

}  // namespace

std::unique_ptr<Graph> Graph::of(Sequence& sequence, Target& target) {
  std::unique_ptr<Graph> graph(new Graph);
  return graph->make(sequence, target) ? std::move(graph) : nullptr;
}

bool Graph::make(Sequence& sequence, Target& target) {
  target.relax();
  if (!succeeds(cudaGraphCreate(&graph_, 0))) return false;
  nodes_.resize(sequence.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<cudaGraphNode_t> before;
    for (size_t j = 0; j < i; ++j) {
      if (((sequence.waits_for(i) >> j) & 1u) != 0) before.push_back(nodes_[j]);
    }
    const cudaKernelNodeParams parameters = node_of(sequence, i);
    if (!succeeds(cudaGraphAddKernelNode(&nodes_[i], graph_, before.data(), before.size(), &parameters))) return false;
  }
  set_ = sequence;
  return succeeds(cudaGraphInstantiate(&instance_, graph_, 0));
}

void Graph::abandon() {
  instance_ = nullptr;
  graph_ = nullptr;
}

Graph::~Graph() {
  if (graph_ == nullptr) return;
  RelaxedCapture relaxed;
  relaxed.begin();
  if (instance_ != nullptr) succeeds(cudaGraphExecDestroy(instance_));
  succeeds(cudaGraphDestroy(graph_));
}

bool Graph::launch(Sequence& sequence, Target& target) {
  if (!set(sequence, target) || !succeeds(cudaGraphLaunch(instance_, target.stream()))) return false;
  set_.swap_kernels(sequence);
  return true;
}

bool Graph::set(Sequence& sequence, Target& target) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (sequence.is_same(i, set_)) continue;
    target.relax();
    const cudaKernelNodeParams parameters = node_of(sequence, i);
    if (!succeeds(cudaGraphExecKernelNodeSetParams(instance_, nodes_[i], &parameters))) return false;
  }
  return true;
}

}  // namespace msda::kernels::cuda
