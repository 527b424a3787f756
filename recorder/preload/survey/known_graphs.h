// Knows what each CUDA graph that a program instantiated does, from its nodes and from later changes of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "recorder/preload/survey/graph_steps.h"
#include "recorder/preload/survey/surveyed_kernel.h"

namespace msda::record {

struct KnownGraph {
  GraphSteps steps;
  // Why none of its launches runs again.
  Unsurveyed never = Unsurveyed::kNone;
  int64_t left_on_host = 2;  // launches that may be surveyed with copies on the host, which takes long
};

// Thread-safe; none of its functions throws. A graph of which it does not know enough gets a reason in `never`.
class KnownGraphs {
 public:
  // Called when the driver has made it from this graph, or has updated it to match this graph.
  void instantiated(cuda::GraphExec exec, cuda::Graph graph) noexcept;
  void updated(cuda::GraphExec exec, cuda::Graph graph) noexcept;
  // Called when somebody has changed it in a way that is not followed.
  void changed(cuda::GraphExec exec) noexcept;
  // A node has other parameters, or is disabled, or is enabled again.
  void changed_kernel(cuda::GraphExec exec, cuda::GraphNode node, const cuda::KernelNodeParameters& to) noexcept;
  void changed_copy(cuda::GraphExec exec, cuda::GraphNode node, const CopyStep& to) noexcept;
  void changed_set(cuda::GraphExec exec, cuda::GraphNode node, const SetStep& to) noexcept;
  void enabled(cuda::GraphExec exec, cuda::GraphNode node, bool is_enabled) noexcept;
  void destroyed(cuda::GraphExec exec) noexcept;
  void context_ends() noexcept;

  // Returns the graph as it is now; null if it is not known. What is found out about its launches is noted there.
  std::shared_ptr<KnownGraph> find(cuda::GraphExec exec) const;

 private:
  template <class Change>
  void change(cuda::GraphExec exec, Change&& change) noexcept;
  template <class Change>
  void change_step(cuda::GraphExec exec, cuda::GraphNode node, Change&& change) noexcept;

  mutable std::mutex mutex_;
  std::map<cuda::GraphExec, std::shared_ptr<KnownGraph>> graphs_;
};

}  // namespace msda::record
