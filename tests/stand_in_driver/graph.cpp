#include "tests/stand_in_driver/graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "tests/stand_in_driver/stream.h"

namespace msda::stand_in {
namespace {

struct Graphs {
  std::mutex mutex;
  std::map<CUgraph, std::unique_ptr<CUgraph_st>> all;
};

Graphs& graphs() {
  static Graphs* const instance = new Graphs;
  return *instance;
}

// The first byte of a row.
char* row_of(unsigned int type, const void* host, CUdeviceptr device, size_t pitch, size_t height, size_t y, size_t z) {
  const auto base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : static_cast<uintptr_t>(device);
  return reinterpret_cast<char*>(base + (z * height + y) * pitch);
}

CUresult copy_rows(const CUDA_MEMCPY3D& c) {
  for (size_t z = 0; z < c.Depth; ++z) {
    for (size_t y = 0; y < c.Height; ++y) {
      char* const to = row_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstHeight, c.dstY + y, c.dstZ + z);
      const char* const from =
          row_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcHeight, c.srcY + y, c.srcZ + z);
      if (c.WidthInBytes) std::memmove(to + c.dstXInBytes, from + c.srcXInBytes, c.WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}

CUresult set_rows(const CUDA_MEMSET_NODE_PARAMS& set) {
  for (size_t y = 0; y < set.height; ++y) {
    char* const row = reinterpret_cast<char*>(static_cast<uintptr_t>(set.dst + y * set.pitch));
    for (size_t x = 0; x < set.width; ++x) std::memcpy(row + x * set.elementSize, &set.value, set.elementSize);
  }
  return CUDA_SUCCESS;
}

Work work_of_child(CUgraph graph) {
  std::vector<Work> works;
  for (const auto& node : graph->nodes) works.push_back(node->work());
  return [works]() -> CUresult {
    for (const Work& work : works) {
      if (const CUresult error = work()) return error;
    }
    return CUDA_SUCCESS;
  };
}

bool is_allocated_side(unsigned int type, const void* host, CUdeviceptr device, size_t bytes) {
  if (type == CU_MEMORYTYPE_HOST) return host != nullptr || bytes == 0;
  return type != CU_MEMORYTYPE_ARRAY && allocated(device, bytes);
}

}  // namespace

Work CUgraphNode_st::work() const {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return [run = code->run, arguments = bytes] { return run(arguments.data()); };
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return [c = copy] { return copy_rows(c); };
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return [s = set] { return set_rows(s); };
    case CU_GRAPH_NODE_TYPE_HOST:
      return [h = host] {
        h.fn(h.userData);
        return CUDA_SUCCESS;
      };
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return work_of_child(child);
    default:
      return [] { return CUDA_SUCCESS; };
  }
}

CUgraph new_graph() {
  auto fresh = std::make_unique<CUgraph_st>();
  const CUgraph graph = fresh.get();
  const std::lock_guard lock(graphs().mutex);
  graphs().all[graph] = std::move(fresh);
  return graph;
}

// With what it was made of: a handle that is used afterwards shows.
bool destroy_graph(CUgraph graph) {
  const std::lock_guard lock(graphs().mutex);
  return graphs().all.erase(graph) > 0;
}

CUgraphNode add_node(CUgraph graph, CUgraphNode_st node) {
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  CUgraphNode_st& added = *graph->nodes.back();
  if (added.code) {
    for (const Parameter& parameter : added.code->parameters) added.pointers.push_back(&added.bytes[parameter.offset]);
    added.kernel.kernelParams = added.pointers.data();
  }
  return &added;
}

CUresult submit_or_capture(CUstream handle, CUgraphNode_st node, bool null_is_per_thread) {
  {
    const std::lock_guard lock(streams().mutex);
    const auto stream = find_stream(handle, null_is_per_thread);
    if (stream && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
      const auto& nodes = stream->capture_graph->nodes;
      if (!nodes.empty()) node.after = {nodes.back().get()};
      add_node(stream->capture_graph, std::move(node));
      return CUDA_SUCCESS;
    }
  }
  return submit(handle, node.work(), null_is_per_thread);
}

size_t bytes_of(const CUDA_MEMSET_NODE_PARAMS& set) {
  return set.width && set.height ? (set.height - 1) * set.pitch + set.width * set.elementSize : 0;
}

bool can_copy(const CUDA_MEMCPY3D& c) {
  const auto bytes = [&](size_t x, size_t y, size_t z, size_t pitch, size_t height) {
    return ((z + c.Depth - 1) * height + y + c.Height - 1) * pitch + x + c.WidthInBytes;
  };
  if (!c.WidthInBytes || !c.Height || !c.Depth) return true;
  return is_allocated_side(c.srcMemoryType, c.srcHost, c.srcDevice,
                           bytes(c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight)) &&
         is_allocated_side(c.dstMemoryType, c.dstHost, c.dstDevice,
                           bytes(c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight));
}

}  // namespace msda::stand_in
