// The part of the CUDA driver API that describes what a CUDA graph does, and that does it without the graph. Layouts
// are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/preload/driver/copy_layout.h"
#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

enum class NodeType : int {
  kKernel = 0,
  kCopy = 1,
  kSet = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5
};  // CU_GRAPH_NODE_TYPE_*

struct KernelNodeParameters {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function function;           // null: `kernel`, a CUkernel, is meant
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  // The first version, before CUDA 12, ends here.
  Function kernel;
  Context context;
};
static_assert(offsetof(KernelNodeParameters, parameters) == 40 && sizeof(KernelNodeParameters) == 72);

struct SetNodeParameters {  // CUDA_MEMSET_NODE_PARAMS
  DevicePointer to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;  // elements, and rows
};
static_assert(sizeof(SetNodeParameters) == 40);

// Any of these may be missing.
struct GraphDriver {
  Result (*nodes)(Graph, GraphNode*, size_t*) = nullptr;                          // cuGraphGetNodes
  Result (*edges)(Graph, GraphNode*, GraphNode*, uint64_t*, size_t*) = nullptr;   // cuGraphGetEdges_v2
  Result (*plain_edges)(Graph, GraphNode*, GraphNode*, size_t*) = nullptr;        // cuGraphGetEdges
  Result (*node_type)(GraphNode, NodeType*) = nullptr;                            // cuGraphNodeGetType
  Result (*kernel)(GraphNode, KernelNodeParameters*) = nullptr;                   // cuGraphKernelNodeGetParams_v2, or
                                                                                  // the first version
  Result (*kernel_attribute)(GraphNode, int, void*) = nullptr;                    // cuGraphKernelNodeGetAttribute
  Result (*copy)(GraphNode, CopyOfBox*) = nullptr;                                // cuGraphMemcpyNodeGetParams
  Result (*set)(GraphNode, SetNodeParameters*) = nullptr;                         // cuGraphMemsetNodeGetParams
  Result (*child)(GraphNode, Graph*) = nullptr;                                   // cuGraphChildGraphNodeGetGraph
  Result (*copy_3d)(const CopyOfBox*, Stream) = nullptr;                          // cuMemcpy3DAsync_v2
  Result (*set_words)(DevicePointer, unsigned, size_t, Stream) = nullptr;         // cuMemsetD32Async
  Result (*set_halves)(DevicePointer, unsigned short, size_t, Stream) = nullptr;  // cuMemsetD16Async
  Result (*set_rows)(DevicePointer, size_t, unsigned char, size_t, size_t, Stream) = nullptr;  // cuMemsetD2D8Async
  Result (*set_rows_of_halves)(DevicePointer, size_t, unsigned short, size_t, size_t,
                               Stream) = nullptr;                                                  // ...D2D16Async
  Result (*set_rows_of_words)(DevicePointer, size_t, unsigned, size_t, size_t, Stream) = nullptr;  // ...D2D32Async
};
const GraphDriver& graph_driver();

}  // namespace msda::record::cuda
