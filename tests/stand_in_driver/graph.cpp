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
  std::map<CUgraph, std::unique_ptr<cuda::GraphHandle>> all;
};

Graphs& graphs() {
  static Graphs* const instance = new Graphs;
  return *instance;
}

// The first byte of a row.
char* row_of(const cuda::CopyOfBox::Side& side, size_t y, size_t z) {
  const auto base = side.type == cuda::MemoryType::kHost ? reinterpret_cast<uintptr_t>(side.host)
                                                         : static_cast<uintptr_t>(side.device);
  return reinterpret_cast<char*>(base + ((side.z + z) * side.height + side.y + y) * side.pitch) + side.x;
}

CUresult copy_rows(const cuda::CopyOfBox& c) {
  for (size_t z = 0; z < c.depth; ++z) {
    for (size_t y = 0; y < c.height; ++y) {
      if (c.width) std::memmove(row_of(c.to, y, z), row_of(c.from, y, z), c.width);
    }
  }
  return CUDA_SUCCESS;
}

CUresult set_rows(const cuda::SetNodeParameters& set) {
  for (size_t y = 0; y < set.height; ++y) {
    char* const row = reinterpret_cast<char*>(static_cast<uintptr_t>(set.to + y * set.pitch));
    for (size_t x = 0; x < set.width; ++x) std::memcpy(row + x * set.element_bytes, &set.value, set.element_bytes);
  }
  return CUDA_SUCCESS;
}

Work work_of_child(CUgraph graph) {
  std::vector<Work> works;
  for (const auto& node : graph->nodes) works.push_back(work_of(*node));
  return [works]() -> CUresult {
    for (const Work& work : works) {
      if (const CUresult error = work()) return error;
    }
    return CUDA_SUCCESS;
  };
}

bool is_allocated_side(const cuda::CopyOfBox::Side& side, size_t bytes) {
  if (side.type == cuda::MemoryType::kHost) return side.host != nullptr || bytes == 0;
  return side.type != cuda::MemoryType::kArray && allocated(side.device, bytes);
}

}  // namespace

Work work_of(const cuda::GraphNodeHandle& node) {
  switch (node.type) {
    case cuda::NodeType::kKernel:
      return [run = node.code->run, arguments = node.bytes] { return run(arguments.data()); };
    case cuda::NodeType::kCopy:
      return [c = node.copy] { return copy_rows(c); };
    case cuda::NodeType::kSet:
      return [s = node.set] { return set_rows(s); };
    case cuda::NodeType::kHost:
      return [h = node.host] {
        h.fn(h.userData);
        return CUDA_SUCCESS;
      };
    case cuda::NodeType::kGraph:
      return work_of_child(node.child);
    default:
      return [] { return CUDA_SUCCESS; };
  }
}

CUgraph new_graph() {
  auto fresh = std::make_unique<cuda::GraphHandle>();
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

CUgraphNode add_node(CUgraph graph, cuda::GraphNodeHandle node) {
  graph->nodes.push_back(std::make_unique<cuda::GraphNodeHandle>(std::move(node)));
  cuda::GraphNodeHandle& added = *graph->nodes.back();
  if (added.code) {
    for (const Parameter& parameter : added.code->parameters) added.pointers.push_back(&added.bytes[parameter.offset]);
    added.kernel.parameters = added.pointers.data();
  }
  return &added;
}

CUresult submit_or_capture(CUstream handle, cuda::GraphNodeHandle node, bool null_is_per_thread) {
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
  return submit(handle, work_of(node), null_is_per_thread);
}

size_t bytes_of(const cuda::SetNodeParameters& set) {
  return set.width && set.height ? (set.height - 1) * set.pitch + set.width * set.element_bytes : 0;
}

bool can_copy(const cuda::CopyOfBox& c) {
  if (!c.width || !c.height || !c.depth) return true;
  const auto is_allocated = [&](const cuda::CopyOfBox::Side& side) {
    return is_allocated_side(
        side, ((side.z + c.depth - 1) * side.height + side.y + c.height - 1) * side.pitch + side.x + c.width);
  };
  return is_allocated(c.from) && is_allocated(c.to);
}

}  // namespace msda::stand_in
