// The driver's functions of graphs.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/stand_in_driver/graph.h"

struct msda::cuda::GraphExecHandle {
  struct Step {
    GraphNode node;  // of the graph that it was made of; never looked into
    NodeType type;
    stand_in::Work work;
    bool enabled = true;
  };
  std::vector<Step> steps;
};

namespace msda::stand_in {

namespace {

struct Execs {
  std::mutex mutex;
  std::map<CUgraphExec, std::unique_ptr<cuda::GraphExecHandle>> all;
};

Execs& execs() {
  static Execs* const instance = new Execs;
  return *instance;
}

CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, cuda::GraphNodeHandle fresh) {
  if (const CUresult error = enter()) return error;
  if (!node || !graph || (count && !after)) return CUDA_ERROR_INVALID_VALUE;
  fresh.after.assign(after, after + count);
  *node = add_node(graph, std::move(fresh));
  return CUDA_SUCCESS;
}

std::vector<cuda::GraphExecHandle::Step> steps_of(CUgraph graph) {
  std::vector<cuda::GraphExecHandle::Step> steps;
  for (const auto& node : graph->nodes) steps.push_back({node.get(), node->type, work_of(*node)});
  return steps;
}

CUresult instantiate(CUgraphExec* exec, CUgraph graph) {
  if (const CUresult error = enter()) return error;
  if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
  auto fresh = std::make_unique<cuda::GraphExecHandle>();
  fresh->steps = steps_of(graph);
  *exec = fresh.get();
  const std::lock_guard lock(execs().mutex);
  execs().all[*exec] = std::move(fresh);
  return CUDA_SUCCESS;
}

// Calls `change` with the step of that node.
template <class Change>
CUresult change_step(CUgraphExec exec, CUgraphNode node, Change&& change) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(execs().mutex);
  if (!execs().all.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  const auto step = std::ranges::find(exec->steps, node, &cuda::GraphExecHandle::Step::node);
  if (step == exec->steps.end()) return CUDA_ERROR_INVALID_VALUE;
  change(*step);
  return CUDA_SUCCESS;
}

CUresult replace(CUgraphExec exec, CUgraphNode node, const cuda::GraphNodeHandle& by) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;  // for a node of another type
  const CUresult error = change_step(exec, node, [&](auto& step) {
    if (step.type != by.type) return;
    step.work = work_of(by);
    result = CUDA_SUCCESS;
  });
  return error ? error : result;
}

CUresult launch_graph(CUgraphExec exec, CUstream stream, bool null_is_per_thread) {
  if (const CUresult error = enter()) return error;
  std::vector<Work> works;
  {
    const std::lock_guard lock(execs().mutex);
    if (!execs().all.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& step : exec->steps) {
      if (step.enabled) works.push_back(step.work);
    }
  }
  const auto run = [works]() -> CUresult {
    for (const Work& work : works) {
      if (const CUresult error = work()) return error;
    }
    return CUDA_SUCCESS;
  };
  return submit(stream, run, null_is_per_thread);
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
  *graph = new_graph();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) { return destroy_graph(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                 const cuda::KernelNodeParameters* parameters) {
  cuda::GraphNodeHandle fresh{cuda::NodeType::kKernel};
  if (const CUresult error = kernel_node_of(*parameters, fresh)) return error;
  return add(node, graph, after, count, std::move(fresh));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              const cuda::CopyOfBox* copy, CUcontext) {
  if (!can_copy(*copy)) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle fresh{cuda::NodeType::kCopy};
  fresh.copy = *copy;
  return add(node, graph, after, count, std::move(fresh));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              const cuda::SetNodeParameters* set, CUcontext) {
  if (!allocated(set->to, bytes_of(*set))) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle fresh{cuda::NodeType::kSet};
  fresh.set = *set;
  return add(node, graph, after, count, std::move(fresh));
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_HOST_NODE_PARAMS* host) {
  cuda::GraphNodeHandle fresh{cuda::NodeType::kHost};
  fresh.host = *host;
  return add(node, graph, after, count, std::move(fresh));
}

// The real driver copies the child; here it must live as long as its parent.
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                  CUgraph child) {
  if (!child) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle fresh{cuda::NodeType::kGraph};
  fresh.child = child;
  return add(node, graph, after, count, std::move(fresh));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count) {
  return add(node, graph, after, count, cuda::GraphNodeHandle{cuda::NodeType::kEmpty});
}

// The newest first: the real driver promises no order.
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  const auto& all = graph->nodes;
  for (size_t i = 0; nodes && i < std::min(*count, all.size()); ++i) nodes[i] = all[all.size() - 1 - i].get();
  *count = all.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, uint64_t* data, size_t* count) {
  if (!graph || !count || (from && (!to || !data))) return CUDA_ERROR_INVALID_VALUE;
  size_t edges = 0;
  for (const auto& node : graph->nodes) {
    for (const CUgraphNode before : node->after) {
      if (from && edges < *count) {
        from[edges] = before;
        to[edges] = node.get();
      }
      ++edges;
    }
  }
  *count = edges;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, cuda::NodeType* type) {
  if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, cuda::KernelNodeParameters* parameters) {
  if (!node || !parameters || node->type != cuda::NodeType::kKernel) return CUDA_ERROR_INVALID_VALUE;
  *parameters = node->kernel;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, void* value) {
  if (!node || !value || node->type != cuda::NodeType::kKernel) return CUDA_ERROR_INVALID_VALUE;
  std::memset(value, 0, sizeof cuda::LaunchAttribute().bytes);
  for (const cuda::LaunchAttribute& launch_attribute : node->attributes) {
    if (launch_attribute.id == attribute) std::memcpy(value, launch_attribute.bytes, sizeof launch_attribute.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, cuda::CopyOfBox* copy) {
  if (!node || !copy || node->type != cuda::NodeType::kCopy) return CUDA_ERROR_INVALID_VALUE;
  *copy = node->copy;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, cuda::SetNodeParameters* set) {
  if (!node || !set || node->type != cuda::NodeType::kSet) return CUDA_ERROR_INVALID_VALUE;
  *set = node->set;
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  if (!node || !graph || node->type != cuda::NodeType::kGraph) return CUDA_ERROR_INVALID_VALUE;
  *graph = node->child;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return flags ? CUDA_ERROR_NOT_SUPPORTED : instantiate(exec, graph);
}

CUresult stand_in_hidden_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(exec, graph, flags);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const cuda::KernelNodeParameters* parameters) {
  cuda::GraphNodeHandle fresh{cuda::NodeType::kKernel};
  if (const CUresult error = kernel_node_of(*parameters, fresh)) return error;
  return replace(exec, node, fresh);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const cuda::CopyOfBox* copy, CUcontext) {
  if (!can_copy(*copy)) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle fresh{cuda::NodeType::kCopy};
  fresh.copy = *copy;
  return replace(exec, node, fresh);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const cuda::SetNodeParameters* set,
                                        CUcontext) {
  if (!allocated(set->to, bytes_of(*set))) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle fresh{cuda::NodeType::kSet};
  fresh.set = *set;
  return replace(exec, node, fresh);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* host) {
  cuda::GraphNodeHandle fresh{cuda::NodeType::kHost};
  fresh.host = *host;
  return replace(exec, node, fresh);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  cuda::GraphNodeHandle fresh{cuda::NodeType::kGraph};
  fresh.child = child;
  return replace(exec, node, fresh);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return change_step(exec, node, [&](auto& step) { step.enabled = enabled != 0; });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* outcome) {
  constexpr int kTopologyChanged = 2;
  constexpr CUresult kUpdateFailure = 910;
  if (!graph || !outcome) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(execs().mutex);
  if (!execs().all.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  auto fresh = steps_of(graph);
  const auto type = &cuda::GraphExecHandle::Step::type;
  if (!std::ranges::equal(exec->steps, fresh, {}, type, type)) {
    outcome->result = kTopologyChanged;
    return kUpdateFailure;
  }
  for (size_t i = 0; i < fresh.size(); ++i) exec->steps[i].work = std::move(fresh[i].work);
  outcome->result = 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const std::lock_guard lock(execs().mutex);
  return execs().all.erase(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { return launch_graph(exec, stream, false); }

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) { return launch_graph(exec, stream, true); }

}  // extern "C"

}  // namespace msda::stand_in
