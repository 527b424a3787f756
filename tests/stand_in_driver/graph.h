// CUDA graphs of the stand-in driver: nodes that are added one by one, or by a stream that is captured.
#pragma once

#include <memory>
#include <vector>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/kernels.h"

namespace msda::cuda {

struct GraphNodeHandle {
  NodeType type;
  // One of these, by the type.
  KernelNodeParameters kernel{};
  CopyOfBox copy{};
  SetNodeParameters set{};
  stand_in::CUDA_HOST_NODE_PARAMS host{};
  Graph child = nullptr;
  // Attributes of a kernel.
  const stand_in::KernelCode* code = nullptr;
  std::vector<std::byte> bytes{};
  std::vector<void*> pointers{};  // to each parameter in `bytes`
  std::vector<LaunchAttribute> attributes{};

  std::vector<GraphNode> after{};
};

struct GraphHandle {
  std::vector<std::unique_ptr<GraphNodeHandle>> nodes;  // each after those that it comes after
};

}  // namespace msda::cuda

namespace msda::stand_in {

Work work_of(const cuda::GraphNodeHandle& node);

// Graphs that nobody destroys stay for ever.
CUgraph new_graph();
bool destroy_graph(CUgraph graph);
CUgraphNode add_node(CUgraph graph, cuda::GraphNodeHandle node);

// Gives the node's work to the stream, or adds it to the graph that the stream is captured into.
CUresult submit_or_capture(CUstream stream, cuda::GraphNodeHandle node, bool null_is_per_thread = false);

// The node that launches so (module.cpp).
CUresult kernel_node_of(const cuda::KernelNodeParameters& given, cuda::GraphNodeHandle& node);

bool can_copy(const cuda::CopyOfBox& copy);
size_t bytes_of(const cuda::SetNodeParameters& set);

}  // namespace msda::stand_in
