// Surveys a CUDA graph's launch. The program's own launch runs as it is. Then memory is put back, and the graph is
// repeated node by node, with each kernel surveyed like a launch. At last the program's own result is put back.
#include <algorithm>
#include <utility>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/survey/survey.h"

namespace msda::record {
namespace {

template <class Visit>
void for_each_kernel(const KnownGraph& graph, Visit&& visit) {
  for (const GraphStep& step : graph.steps.all) {
    if (!step.is_enabled) continue;
    if (const auto* const kernel = std::get_if<KernelStep>(&step.what)) visit(*kernel);
  }
}

// Returns whether the launch reaches nothing but memory that was copied.
bool is_within(const Reach& launch, const Reach& graph) {
  const auto is_shared = [&](const DeviceRange& range) {
    return std::ranges::find(graph.shared, range.address, &DeviceRange::address) != graph.shared.end();
  };
  return std::ranges::all_of(launch.ranges(), [&](const DeviceRange& range) { return graph.has(range.address); }) &&
         std::ranges::all_of(launch.shared, is_shared);
}

}  // namespace

// Counts a graph that was made in a way that no hook sees, so that its kernels are not known.
void Survey::count_unknown_graph() {
  constexpr char kUnknownGraph[] = "cuGraphLaunch";
  if (!recording().wants(kUnknownGraph)) return;
  SurveyedKernel& row = row_of(kUnknownGraph, "");
  ++launches_;
  ++row.launches;
  count(row, is_asked_for(launches_) ? Unsurveyed::kCaptured : Unsurveyed::kNotAsked);
}

// Returns the kernels of a graph's launch, in order. Their numbers go on after the program's launches so far.
std::vector<Survey::Planned> Survey::plan(const KnownGraph& graph) {
  std::vector<Planned> plan;
  int64_t number = launches_;
  for_each_kernel(graph, [&](const KernelStep& step) {
    SurveyedKernel* kernel = loaded(step.function).kernel;
    const bool is_wanted = recording().wants(kernel->layout.kernel.c_str());
    plan.push_back({kernel, is_wanted, is_wanted && is_asked_for(++number)});
  });
  return plan;
}

void Survey::count_launch(const Planned& planned) {
  if (!planned.is_wanted) return;
  ++launches_;
  ++planned.kernel->launches;
  if (!planned.is_asked) count(*planned.kernel, Unsurveyed::kNotAsked);
}

// Counts a graph's kernels from this one on: a kernel that must not run again says why, and the others that they are in
// a graph with it.
void Survey::count_graph(const GraphTicket& ticket, size_t from, Unsurveyed why) {
  for (size_t i = from; i < ticket.plan.size(); ++i) {
    const Planned& planned = ticket.plan[i];
    count_launch(planned);
    if (planned.is_asked) count(*planned.kernel, planned.kernel == ticket.culprit ? ticket.its_reason : why);
  }
}

// Finds out whether each of its kernels may be launched by itself, and what they reach.
Unsurveyed Survey::reach_of_graph(GraphTicket& ticket) {
  cuda::Context context = nullptr;
  cuda::driver().current_context(&context);
  bool is_here = true;
  for_each_kernel(*ticket.graph, [&](const KernelStep& step) {
    const Loaded& loaded = this->loaded(step.function);
    Unsurveyed why = loaded.kernel->never;
    if (why == Unsurveyed::kNone && step.bytes.empty()) why = Unsurveyed::kParameters;
    if (why == Unsurveyed::kNone && !loaded.variables) why = Unsurveyed::kUnknownCode;
    if (why != Unsurveyed::kNone && ticket.culprit == nullptr) {
      ticket.culprit = loaded.kernel;
      ticket.its_reason = why;
    }
    is_here = is_here && (step.context == nullptr || step.context == context);
    ticket.is_first = ticket.is_first || !loaded.kernel->is_checked;
    if (loaded.variables)
      ticket.variables.insert(ticket.variables.end(), loaded.variables->begin(), loaded.variables->end());
  });
  if (ticket.culprit != nullptr || !is_here) return Unsurveyed::kCaptured;
  add_reach_of(ticket.graph->steps.all, ticket.reach);
  for (const DeviceRange& variable : ticket.variables) ticket.reach.add(variable);
  return Unsurveyed::kNone;
}

// Copies what the graph reaches, unless it must not, or cannot, be repeated.
Unsurveyed Survey::prepare_graph(GraphTicket& ticket) {
  if (ticket.graph->never != Unsurveyed::kNone) return ticket.graph->never;
  if (const Unsurveyed why = reach_of_graph(ticket); why != Unsurveyed::kNone) return why;
  if (!is_alone(ticket.turn)) return Unsurveyed::kBusy;
  const Unsurveyed why = save_and_follow(ticket.reach, ticket.stream, [&](const DeviceRange& all) {
    if (!ticket.memory.reserve(ticket.reach, graph_space_, ticket.graph->left_on_host, ticket.stream)) {
      return Unsurveyed::kOverLimit;
    }
    return ticket.memory.keep_before(all) ? Unsurveyed::kNone : Unsurveyed::kRefused;
  });
  if (why != Unsurveyed::kNone) return why;
  if (reads_what_left(ticket.graph->steps.all, ticket.reach)) return ticket.graph->never = Unsurveyed::kShared;
  if (ticket.is_first) {
    auto all = memory_.allocations_here();
    all.insert(all.end(), ticket.variables.begin(), ticket.variables.end());
    if (!ticket.sight.begin(std::move(all), ticket.stream)) return Unsurveyed::kRefused;
  }
  return Unsurveyed::kNone;
}

// Keeps the result of the program's own launch, and checks that it stayed within what was copied before.
Unsurveyed Survey::check_graph(GraphTicket& ticket) {
  if (!for_launches_.note(wait_for(ticket.stream, for_launches_.seconds()))) {
    return ticket.graph->never = Unsurveyed::kBusy;
  }
  if (!ticket.memory.keep_result(memory_.hull()) || !wait_for(ticket.stream, most_patience_)) {
    return Unsurveyed::kRefused;
  }
  // A table of pointers that the graph itself made may name memory that was not copied: this time, and not the next.
  Reach now = ticket.reach;
  if (add_found(now, ticket.stream).value_or(true)) return Unsurveyed::kOtherMemory;
  if (ticket.is_first) {
    const auto touched = ticket.sight.end(ticket.reach);
    if (!touched) return Unsurveyed::kRefused;
    if (*touched == Touched::kOthers) return ticket.graph->never = Unsurveyed::kOtherMemory;
  }
  const auto shares = ticket.memory.changed_shared();
  if (!shares) return Unsurveyed::kRefused;
  return *shares ? ticket.graph->never = Unsurveyed::kShared : Unsurveyed::kNone;
}

// Launches one kernel of the graph, as if the program did. Returns false if it did not run, or may not have ended.
bool Survey::launch_step(const KernelStep& step, const Planned& planned, GraphTicket& ticket) {
  const LaunchOfStep launch(step, ticket.stream);
  if (!planned.is_asked) return launch_again(launch.launched()) == cuda::kSuccess;
  Ticket trial;
  begin_trial(launch.launched(), loaded(step.function), trial);
  if (!is_within(trial.reach, ticket.reach)) {
    if (trial.kernel != nullptr) count(*trial.kernel, Unsurveyed::kOtherMemory);
    return false;
  }
  const cuda::Result result = launch_again(launch.launched());
  if (trial.kernel == nullptr) return result == cuda::kSuccess;
  const Unsurveyed why = end_trial(launch.launched(), trial, result);
  finish_under_way(trial.turn);  // before the graph's next step changes memory
  return why != Unsurveyed::kBusy && why != Unsurveyed::kRefused;
}

// Repeats the graph, and counts the kernels that it has begun. Returns false if it stopped before the graph's end.
bool Survey::do_again(GraphTicket& ticket, size_t& begun) {
  for (const GraphStep& step : ticket.graph->steps.all) {
    if (!step.is_enabled) continue;
    bool is_done = true;
    if (const auto* const kernel = std::get_if<KernelStep>(&step.what)) {
      const Planned& planned = ticket.plan[begun++];
      count_launch(planned);
      is_done = launch_step(*kernel, planned, ticket);
    } else if (const auto* const copy = std::get_if<CopyStep>(&step.what)) {
      is_done = leaves_device(*copy) || perform(*copy, ticket.stream);
    } else if (const auto* const set = std::get_if<SetStep>(&step.what)) {
      is_done = perform(*set, ticket.stream);
    }
    if (!is_done) return false;
  }
  return true;
}

void Survey::before_graph(cuda::GraphExec exec, cuda::Stream stream, GraphTicket& ticket) noexcept {
  by_itself([&] {
    ticket.turn = lock_.take(most_patience_);
    memory_.stream_used(stream);
    if (!ticket.turn.owns_lock() || recording().is_over()) return;
    finish_under_way(ticket.turn);
    int capturing = 0;
    // The program captures this graph into another one, or the launch will fail.
    if (cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) return;
    unwritten_.all_written();  // nobody looks what each of its nodes writes
    ticket.graph = graphs_.find(exec);
    if (ticket.graph == nullptr) return count_unknown_graph();
    ticket.stream = stream;
    ticket.plan = plan(*ticket.graph);
    const bool is_asked = std::ranges::any_of(ticket.plan, &Planned::is_asked);
    const Unsurveyed why = is_asked ? prepare_graph(ticket) : Unsurveyed::kNotAsked;
    ticket.is_prepared = why == Unsurveyed::kNone;
    if (!ticket.is_prepared) count_graph(ticket, 0, why);
  });
  if (!ticket.is_prepared) ticket.turn.pass();
}

// Between the two copies nothing of the program may run: it must not see what the repeated graph does.
Unsurveyed Survey::run_graph(GraphTicket& ticket, size_t& begun) {
  const Unsurveyed why = check_graph(ticket);
  if (why != Unsurveyed::kNone) return why;
  if (!ticket.turn.begin_repeating()) return Unsurveyed::kBusy;
  bool is_done = false;
  try {
    is_done = ticket.memory.put_back_before() && do_again(ticket, begun);
  } catch (...) {  // no memory of the host
  }
  const bool is_back = ticket.memory.put_back_result() && cuda::driver().synchronize(ticket.stream) == cuda::kSuccess;
  return is_done && is_back ? Unsurveyed::kNone : ticket.graph->never = Unsurveyed::kCaptured;
}

void Survey::after_graph(GraphTicket& ticket, cuda::Result result) noexcept {
  if (ticket.is_prepared) {
    by_itself([&] {
      size_t begun = 0;
      const Unsurveyed why = result == cuda::kSuccess ? run_graph(ticket, begun) : Unsurveyed::kRefused;
      count_graph(ticket, begun, why);
      report_now_and_then();
    });
  }
  ticket.turn.end();
}

}  // namespace msda::record
