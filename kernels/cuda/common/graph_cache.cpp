#include "kernels/cuda/common/graph_cache.h"

#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/cuda/common/graph.h"
#include "kernels/cuda/common/per_context.h"

namespace msda::kernels::cuda {
namespace {

// The graphs of one context.
struct Graphs {
  // Numbers that lie here side by side identify the graphs: within a program's other work the graphs themselves are in
  // no cache.
  struct Kept {
    Sequence::Digests digests;
    std::unique_ptr<Graph> graph;
  };
  std::deque<Kept> kept;  // the least recently used first

  Graphs() = default;
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  // Abandons the graphs, because the context may be gone.
  ~Graphs() { end_of_context(); }
  void end_of_context() {
    for (Kept& entry : kept) entry.graph->abandon();
  }

  std::unique_ptr<Graph> take(std::deque<Kept>::iterator which) {
    std::unique_ptr<Graph> graph = std::move(which->graph);
    kept.erase(which);
    return graph;
  }
};

// Each stream has graphs of its own, because a graph's launches wait for one another: the stream is the digests' seed.
// A graph belongs to one call at a time, which takes it out and puts it back.
class GraphCache {
 public:
  // Takes out a graph that launches such a sequence as it is, as the calls of a training step repeat the last step's.
  // Else, if there are many of its shape, takes the least recently used of these. Returns null if there is none.
  std::unique_ptr<Graph> take(Target& target, const Sequence::Digests& digests) {
    const std::lock_guard lock(mutex_);
    Graphs& graphs = of_context_.of(target.context());
    size_t of_shape = 0;
    auto oldest = graphs.kept.end();
    for (auto kept = graphs.kept.begin(); kept != graphs.kept.end(); ++kept) {
      if (kept->digests.shape != digests.shape) continue;
      if (kept->digests.whole == digests.whole) return graphs.take(kept);
      if (of_shape++ == 0) oldest = kept;
    }
    return of_shape < kMostOfShape ? nullptr : graphs.take(oldest);
  }

  // Drops the graph if there is no memory to keep it: the call has been enqueued, and must not fail.
  void put_back(Target& target, const Sequence::Digests& digests, std::unique_ptr<Graph> graph) noexcept {
    try {
      keep(target, digests, std::move(graph));
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  static constexpr size_t kMostOfShape = 32, kMostOfContext = 256;

  void keep(Target& target, const Sequence::Digests& digests, std::unique_ptr<Graph> graph) {
    std::unique_ptr<Graph> oldest;  // ends after the lock
    const std::lock_guard lock(mutex_);
    Graphs& graphs = of_context_.of(target.context());
    graphs.kept.push_back({digests, std::move(graph)});
    if (graphs.kept.size() > kMostOfContext) oldest = graphs.take(graphs.kept.begin());
  }

  std::mutex mutex_;
  PerContext<Graphs> of_context_;
};

// Returns the cache. It is never destroyed: the driver may have ended before the program's static objects do.
GraphCache& cache() {
  static auto* const cache = new GraphCache;
  return *cache;
}

}  // namespace

bool launch_as_graph(Sequence& sequence, Target& target) {
  const Sequence::Digests digests = sequence.digests(target.stream_number());
  std::unique_ptr<Graph> graph = cache().take(target, digests);
  if (graph == nullptr || !graph->has_shape_of(sequence)) graph = Graph::of(sequence, target);  // digests may collide
  if (graph == nullptr || !graph->launch(sequence, target)) return false;
  cache().put_back(target, digests, std::move(graph));
  return true;
}

}  // namespace msda::kernels::cuda
