#include "kernels/cuda/graph_cache.h"

#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/cuda/graph.h"
#include "kernels/cuda/per_context.h"

namespace msda::kernels::cuda {
namespace {

// A context's.
struct Graphs {
  struct Kept {
    unsigned long long stream;
    std::unique_ptr<Graph> graph;
  };
  std::deque<Kept> kept;  // the oldest first

  Graphs() = default;
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  // The context may be gone.
  ~Graphs() { end_of_context(); }
  void end_of_context() {
    for (Kept& one : kept) one.graph->abandon();
  }

  std::unique_ptr<Graph> take(std::deque<Kept>::iterator which) {
    std::unique_ptr<Graph> graph = std::move(which->graph);
    kept.erase(which);
    return graph;
  }
};

// Each stream has graphs of its own, because a graph's launches wait for one another. A graph belongs to one call at a
// time, which takes it out and puts it back.
class GraphCache {
 public:
  // One that launches this sequence as it is, as the calls of a training step repeat the last step's; or else, if there
  // are many of its shape, the one that was used least recently. Null if there is none.
  std::unique_ptr<Graph> take(Target& target, const Sequence& sequence) {
    const std::lock_guard lock(mutex_);
    Graphs& graphs = of_context_.of(target.context());
    size_t of_shape = 0;
    auto oldest = graphs.kept.end();
    for (auto kept = graphs.kept.begin(); kept != graphs.kept.end(); ++kept) {
      if (kept->stream != target.stream_number() || !kept->graph->has_shape_of(sequence)) continue;
      if (kept->graph->launches(sequence)) return graphs.take(kept);
      if (of_shape++ == 0) oldest = kept;
    }
    return of_shape < kMostOfShape ? nullptr : graphs.take(oldest);
  }

  // Without memory for it the graph ends: the call has been enqueued, and must not fail.
  void put_back(Target& target, std::unique_ptr<Graph> graph) noexcept {
    try {
      keep(target, std::move(graph));
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  static constexpr size_t kMostOfShape = 32, kMostOfContext = 256;

  void keep(Target& target, std::unique_ptr<Graph> graph) {
    std::unique_ptr<Graph> oldest;  // ends after the lock
    const std::lock_guard lock(mutex_);
    Graphs& graphs = of_context_.of(target.context());
    graphs.kept.push_back({target.stream_number(), std::move(graph)});
    if (graphs.kept.size() > kMostOfContext) oldest = graphs.take(graphs.kept.begin());
  }

  std::mutex mutex_;
  PerContext<Graphs> of_context_;
};

// Never destroyed: the driver may have ended before the program's static objects do.
GraphCache& cache() {
  static auto* const cache = new GraphCache;
  return *cache;
}

}  // namespace

bool launch_as_graph(Sequence& sequence, Target& target) {
  std::unique_ptr<Graph> graph = cache().take(target, sequence);
  if (graph == nullptr) graph = Graph::of(sequence, target);
  if (graph == nullptr || !graph->launch(sequence, target)) return false;
  cache().put_back(target, std::move(graph));
  return true;
}

}  // namespace msda::kernels::cuda
