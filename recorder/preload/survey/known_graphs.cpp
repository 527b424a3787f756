#include "recorder/preload/survey/known_graphs.h"

#include <algorithm>
#include <utility>

#include "recorder/preload/driver/own_calls.h"

namespace msda::record {
namespace {

KnownGraph graph_as_it_is(cuda::Graph graph) {
  auto steps = read_steps(graph);
  if (!steps) return {{}, Unsurveyed::kCaptured};
  const bool is_whole = steps->is_whole;
  return {std::move(*steps), is_whole ? Unsurveyed::kNone : Unsurveyed::kGraphNodes};
}

}  // namespace

std::shared_ptr<KnownGraph> KnownGraphs::find(cuda::GraphExec exec) const {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(exec);
  return found != graphs_.end() ? found->second : nullptr;
}

void KnownGraphs::destroyed(cuda::GraphExec exec) noexcept {
  const std::lock_guard lock(mutex_);
  graphs_.erase(exec);
}

void KnownGraphs::context_ends() noexcept {
  const std::lock_guard lock(mutex_);
  graphs_.clear();
}

void KnownGraphs::instantiated(cuda::GraphExec exec, cuda::Graph graph) noexcept {
  destroyed(exec);  // the handle may have meant another one; without memory for this one it is not known
  by_itself([&] {
    auto known = std::make_shared<KnownGraph>(graph_as_it_is(graph));
    const std::lock_guard lock(mutex_);
    graphs_[exec] = std::move(known);
  });
}

// Changes a copy, because a survey of another thread's launch may read the original. If there is no memory for a copy,
// forgets the graph.
template <class Change>
void KnownGraphs::change(cuda::GraphExec exec, Change&& change) noexcept {
  const auto was = find(exec);
  if (was == nullptr) return;
  destroyed(exec);
  by_itself([&] {
    auto fresh = std::make_shared<KnownGraph>(*was);
    change(*fresh);
    const std::lock_guard lock(mutex_);
    graphs_[exec] = std::move(fresh);
  });
}

void KnownGraphs::changed(cuda::GraphExec exec) noexcept {
  change(exec, [](KnownGraph& graph) { graph.never = Unsurveyed::kCaptured; });
}

void KnownGraphs::updated(cuda::GraphExec exec, cuda::Graph graph) noexcept {
  change(exec, [&](KnownGraph& known) {
    // What is disabled stays so, but its place in the other graph is not known.
    const bool has_all = std::ranges::all_of(known.steps.all, &GraphStep::is_enabled);
    const auto never = known.never;
    known = graph_as_it_is(graph);
    if (!has_all) known.never = Unsurveyed::kCaptured;
    if (never != Unsurveyed::kNone) known.never = never;
  });
}

// `change` returns false if the step is no longer known.
template <class Change>
void KnownGraphs::change_step(cuda::GraphExec exec, cuda::GraphNode node, Change&& change) noexcept {
  this->change(exec, [&](KnownGraph& graph) {
    const auto step = std::ranges::find(graph.steps.all, node, &GraphStep::node);
    if (step == graph.steps.all.end() || !change(*step)) graph.never = Unsurveyed::kCaptured;
  });
}

void KnownGraphs::changed_kernel(cuda::GraphExec exec, cuda::GraphNode node,
                                 const cuda::KernelNodeParameters& to) noexcept {
  change_step(exec, node, [&](GraphStep& step) {
    auto* const was = std::get_if<KernelStep>(&step.what);
    auto fresh = kernel_step(to);
    if (was == nullptr || !fresh) return false;
    fresh->attributes = std::move(was->attributes);
    *was = std::move(*fresh);
    return true;
  });
}

void KnownGraphs::changed_copy(cuda::GraphExec exec, cuda::GraphNode node, const CopyStep& to) noexcept {
  change_step(exec, node, [&](GraphStep& step) {
    step.what = to;
    return is_plain(to);
  });
}

void KnownGraphs::changed_set(cuda::GraphExec exec, cuda::GraphNode node, const SetStep& to) noexcept {
  change_step(exec, node, [&](GraphStep& step) {
    step.what = to;
    return true;
  });
}

void KnownGraphs::enabled(cuda::GraphExec exec, cuda::GraphNode node, bool is_enabled) noexcept {
  change_step(exec, node, [&](GraphStep& step) {
    step.is_enabled = is_enabled;
    return true;
  });
}

}  // namespace msda::record
