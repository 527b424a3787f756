// CUDA graphs of the stand-in driver: nodes that are added one by one, or by a stream that is captured.
#pragma once

#include <memory>
#include <vector>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

struct CUgraphNode_st {
  CUgraphNodeType type;
  // One of these, by the type.
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUgraph child = nullptr;
  // Attributes of a kernel.
  const KernelCode* code = nullptr;
  std::vector<std::byte> bytes{};
  std::vector<void*> pointers{};  // to each parameter in `bytes`
  std::vector<CUlaunchAttribute> attributes{};

  std::vector<CUgraphNode> after{};

  Work work() const;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // each after those that it comes after
};

// Graphs that nobody destroys stay for ever.
CUgraph new_graph();
bool destroy_graph(CUgraph graph);
CUgraphNode add_node(CUgraph graph, CUgraphNode_st node);

// Gives the node's work to the stream, or adds it to the graph that the stream is captured into.
CUresult submit_or_capture(CUstream stream, CUgraphNode_st node, bool null_is_per_thread = false);

// The node that launches so (module.cpp).
CUresult kernel_node_of(const CUDA_KERNEL_NODE_PARAMS& given, CUgraphNode_st& node);

bool can_copy(const CUDA_MEMCPY3D& copy);
size_t bytes_of(const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace msda::stand_in
