// Functions of cuda.h that make CUDA graphs ready, change and launch them: rows of table.h, of which only surveys and
// trails do anything. Macros only.
#pragma once

#include "recorder/preload/hooks/memory_table.h"

// clang-format off
#define MSDA_LAST_WATCHING_HOOK cuGraphLaunch_ptsz
#define MSDA_GRAPH_HOOKS(X)                                                                                            \
  X(cuGraphInstantiate, cuda::Result, (cuda::GraphExec* exec, cuda::Graph graph, cuda::GraphNode* node, char*          \
    log, size_t bytes), (exec, graph, node, log, bytes), instantiated_graph, "cuGraphInstantiate", 10999, false)       \
  X(cuGraphInstantiate_v2, cuda::Result, (cuda::GraphExec* exec, cuda::Graph graph, cuda::GraphNode* node, char*       \
    log, size_t bytes), (exec, graph, node, log, bytes), instantiated_graph, "cuGraphInstantiate", 13000, false)       \
  X(cuGraphInstantiateWithFlags, cuda::Result, (cuda::GraphExec* exec, cuda::Graph graph, uint64_t flags),             \
    (exec, graph, flags), instantiated_graph, "cuGraphInstantiateWithFlags", 13000, false)                             \
  MSDA_TWINS(X, cuGraphInstantiateWithParams, _ptsz, (cuda::GraphExec* exec, cuda::Graph graph, void*                  \
    parameters), (exec, graph, parameters), instantiated_graph, "cuGraphInstantiateWithParams")                        \
  X(cuGraphExecUpdate, cuda::Result, (cuda::GraphExec exec, cuda::Graph graph, cuda::GraphNode* node, int*             \
    outcome), (exec, graph, node, outcome), updated_graph, "cuGraphExecUpdate", 11999, false)                          \
  X(cuGraphExecUpdate_v2, cuda::Result, (cuda::GraphExec exec, cuda::Graph graph, void* outcome), (exec, graph,        \
    outcome), updated_graph, "cuGraphExecUpdate", 13000, false)                                                        \
  X(cuGraphExecKernelNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const void* to),        \
    (exec, node, to), changed_kernel_node, "cuGraphExecKernelNodeSetParams", 11999, false)                             \
  X(cuGraphExecKernelNodeSetParams_v2, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const                \
    cuda::KernelNodeParameters* to), (exec, node, to), changed_kernel_node, "cuGraphExecKernelNodeSetParams",          \
    13000, false)                                                                                                      \
  X(cuGraphExecMemcpyNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const                   \
    cuda::CopyOfBox* to, cuda::Context context), (exec, node, to, context), changed_copy_node,                         \
    "cuGraphExecMemcpyNodeSetParams", 13000, false)                                                                    \
  X(cuGraphExecMemsetNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const                   \
    cuda::SetNodeParameters* to, cuda::Context context), (exec, node, to, context), changed_set_node,                  \
    "cuGraphExecMemsetNodeSetParams", 13000, false)                                                                    \
  X(cuGraphExecHostNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const void* to),          \
    (exec, node, to), changed_other_node, "cuGraphExecHostNodeSetParams", 13000, false)                                \
  X(cuGraphExecExternalSemaphoresSignalNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node,       \
    const void* to), (exec, node, to), changed_other_node, "cuGraphExecExternalSemaphoresSignalNodeSetParams",         \
    13000, false)                                                                                                      \
  X(cuGraphExecExternalSemaphoresWaitNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node,         \
    const void* to), (exec, node, to), changed_other_node, "cuGraphExecExternalSemaphoresWaitNodeSetParams",           \
    13000, false)                                                                                                      \
  X(cuGraphExecBatchMemOpNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const void*         \
    to), (exec, node, to), changed_other_node, "cuGraphExecBatchMemOpNodeSetParams", 13000, false)                     \
  X(cuGraphExecNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, const void* to), (exec,       \
    node, to), changed_other_node, "cuGraphExecNodeSetParams", 13000, false)                                           \
  X(cuGraphExecChildGraphNodeSetParams, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, cuda::Graph         \
    graph), (exec, node, graph), changed_other_node, "cuGraphExecChildGraphNodeSetParams", 13000, false)               \
  X(cuGraphExecEventRecordNodeSetEvent, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, cuda::Event         \
    event), (exec, node, event), changed_other_node, "cuGraphExecEventRecordNodeSetEvent", 13000, false)               \
  X(cuGraphExecEventWaitNodeSetEvent, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, cuda::Event           \
    event), (exec, node, event), changed_other_node, "cuGraphExecEventWaitNodeSetEvent", 13000, false)                 \
  X(cuGraphNodeSetEnabled, cuda::Result, (cuda::GraphExec exec, cuda::GraphNode node, unsigned is_enabled),            \
    (exec, node, is_enabled), enabled_node, "cuGraphNodeSetEnabled", 13000, false)                                     \
  X(cuGraphExecDestroy, cuda::Result, (cuda::GraphExec exec), (exec), destroyed_graph, "cuGraphExecDestroy",           \
    13000, false)                                                                                                      \
  MSDA_TWINS(X, cuGraphLaunch, _ptsz, (cuda::GraphExec exec, cuda::Stream stream), (exec, stream),                     \
    launched_graph, "cuGraphLaunch")
// clang-format on
