// The handlers of graph_table.h: each takes a hook (driver_hook.cpp) and returns a wrapper's body.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/hooks/watching.h"

namespace msda::record {

template <class Hook>
auto instantiated_graph(Hook hook) {
  return [hook](cuda::GraphExec* exec, cuda::Graph graph, auto... arguments) {
    const cuda::Result result = hook(exec, graph, arguments...);
    KnownGraphs* const graphs = watched_graphs();
    if (graphs != nullptr && result == cuda::kSuccess) graphs->instantiated(*exec, graph);
    return result;
  };
}

template <class Hook>
auto updated_graph(Hook hook) {
  return [hook](cuda::GraphExec exec, cuda::Graph graph, auto... outcome) {
    const cuda::Result result = hook(exec, graph, outcome...);
    KnownGraphs* const graphs = watched_graphs();
    if (graphs == nullptr) return result;
    if (result == cuda::kSuccess) {
      graphs->updated(exec, graph);
    } else {
      graphs->changed(exec);  // maybe in part
    }
    return result;
  };
}

// Calls `note` once the driver has changed a node.
template <class Hook, class Note>
auto changed_node(Hook hook, Note note) {
  return [hook, note](cuda::GraphExec exec, cuda::GraphNode node, auto to, auto... context) {
    const cuda::Result result = hook(exec, node, to, context...);
    KnownGraphs* const graphs = watched_graphs();
    if (graphs != nullptr && result == cuda::kSuccess) note(*graphs, exec, node, to);
    return result;
  };
}

template <class Hook>
auto changed_kernel_node(Hook hook) {
  return changed_node(hook, []<class To>(KnownGraphs& graphs, auto exec, auto node, const To* to) {
    cuda::KernelNodeParameters parameters{};
    constexpr size_t kBytes =
        std::is_void_v<To> ? offsetof(cuda::KernelNodeParameters, kernel) : sizeof(cuda::KernelNodeParameters);
    std::memcpy(&parameters, to, kBytes);
    graphs.changed_kernel(exec, node, parameters);
  });
}
template <class Hook>
auto changed_copy_node(Hook hook) {
  return changed_node(
      hook, [](KnownGraphs& graphs, auto exec, auto node, auto* to) { graphs.changed_copy(exec, node, *to); });
}
template <class Hook>
auto changed_set_node(Hook hook) {
  return changed_node(hook,
                      [](KnownGraphs& graphs, auto exec, auto node, auto* to) { graphs.changed_set(exec, node, *to); });
}
template <class Hook>
auto changed_other_node(Hook hook) {
  return changed_node(hook, [](KnownGraphs& graphs, auto exec, auto, auto) { graphs.changed(exec); });
}
template <class Hook>
auto enabled_node(Hook hook) {
  return changed_node(hook, [](KnownGraphs& graphs, auto exec, auto node, unsigned is_enabled) {
    graphs.enabled(exec, node, is_enabled != 0);
  });
}

template <class Hook>
auto destroyed_graph(Hook hook) {
  return [hook](cuda::GraphExec exec) {
    KnownGraphs* const graphs = watched_graphs();
    if (graphs != nullptr) graphs->destroyed(exec);  // first: afterwards the handle may be reused
    return hook(exec);
  };
}

template <class Hook>
auto launched_graph(Hook hook) {
  return [hook](cuda::GraphExec exec, cuda::Stream stream) {
    const cuda::Stream used = stream_of(hook, stream);
    const auto launch = [&](auto& watcher, auto&& ticket, auto after) {
      watcher.before_graph(exec, used, ticket);
      const cuda::Result result = hook(exec, stream);
      (watcher.*after)(ticket, result);
      return result;
    };
    if (surveys()) return launch(Survey::instance(), Survey::GraphTicket(), &Survey::after_graph);
    if (trails()) return launch(Trail::instance(), Trail::Ticket(), &Trail::after_launch);
    return hook(exec, stream);
  };
}

}  // namespace msda::record
