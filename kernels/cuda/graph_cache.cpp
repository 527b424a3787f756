#include "kernels/cuda/graph_cache.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/cuda/context.h"
#include "kernels/cuda/graph.h"

namespace msda::kernels::cuda {
namespace {

struct Kept {
  uint64_t stream;
  std::unique_ptr<Graph> graph;
};

// Each stream has graphs of its own, because a graph's launches wait for one another. A graph belongs to one call at a
// time, which takes it out and puts it back.
class GraphCache {
 public:
  // One that launches this sequence as it is, as the calls of a training step repeat the last step's; or else, if there
  // are many of its shape, the one that was used least recently. Null if there is none.
  std::unique_ptr<Graph> take(uint64_t context, uint64_t stream, const Sequence& sequence) {
    const std::lock_guard lock(mutex_);
    std::deque<Kept>& graphs = of_context_[context];
    size_t of_shape = 0;
    auto oldest = graphs.end();
    for (auto kept = graphs.begin(); kept != graphs.end(); ++kept) {
      if (kept->stream != stream || !kept->graph->has_shape_of(sequence)) continue;
      if (kept->graph->launches(sequence)) return taken(graphs, kept);
      if (of_shape++ == 0) oldest = kept;
    }
    return of_shape < kMostOfShape ? nullptr : taken(graphs, oldest);
  }

  // Of the current context. Without memory for it the graph ends: the call has been enqueued, and must not fail.
  void put_back(uint64_t context, uint64_t stream, std::unique_ptr<Graph> graph) noexcept {
    try {
      keep(context, stream, std::move(graph));
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  static constexpr size_t kMostOfShape = 32, kMostOfContext = 256, kMostContexts = 64;

  void keep(uint64_t context, uint64_t stream, std::unique_ptr<Graph> graph) {
    std::unique_ptr<Graph> oldest;  // ends after the lock
    const std::lock_guard lock(mutex_);
    std::deque<Kept>& graphs = of_context_[context];
    graphs.push_back({stream, std::move(graph)});
    if (graphs.size() > kMostOfContext) {
      oldest = std::move(graphs.front().graph);
      graphs.pop_front();
    }
    if (of_context_.size() > kMostContexts) forget(of_context_.begin());
  }

  static std::unique_ptr<Graph> taken(std::deque<Kept>& graphs, std::deque<Kept>::iterator which) {
    std::unique_ptr<Graph> graph = std::move(which->graph);
    graphs.erase(which);
    return graph;
  }

  // The context may be gone.
  void forget(std::map<uint64_t, std::deque<Kept>>::iterator context) {
    for (Kept& kept : context->second) kept.graph->abandon();
    of_context_.erase(context);
  }

  std::mutex mutex_;
  std::map<uint64_t, std::deque<Kept>> of_context_;  // by the context's number: the oldest first
};

// Never destroyed: the driver may have ended before the program's static objects do.
GraphCache& cache() {
  static auto* const cache = new GraphCache;
  return *cache;
}

}  // namespace

bool launch_as_graph(Sequence& sequence, cudaStream_t stream) {
  unsigned long long stream_number = 0;
  if (cudaStreamGetId(stream, &stream_number) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  const uint64_t context = context_number();
  if (context == 0) return false;
  std::unique_ptr<Graph> graph = cache().take(context, stream_number, sequence);
  if (graph == nullptr) graph = Graph::of(sequence);
  if (graph == nullptr || !graph->launch(sequence, stream)) return false;
  cache().put_back(context, stream_number, std::move(graph));
  return true;
}

}  // namespace msda::kernels::cuda
