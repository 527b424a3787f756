// The survey of a program runs each launch again on the same memory, and counts what differs (docs/survey.md). Every
// hook calls these functions; none throws.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/device_memory.h"
#include "recorder/preload/survey/first_sight.h"
#include "recorder/preload/survey/graph_memory.h"
#include "recorder/preload/survey/graph_steps.h"
#include "recorder/preload/survey/known_graphs.h"
#include "recorder/preload/survey/patience.h"
#include "recorder/preload/survey/repeated_launch.h"
#include "recorder/preload/survey/trial_lock.h"
#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

class Survey {
 public:
  static Survey& instance();
  // Returns whether this process is surveyed.
  static bool is_wanted() noexcept;

  // What before_launch() passes to after_launch(); without a kernel the launch is not run again. While it lives, no
  // other thread launches, copies or frees; if this launch does not run again, other threads only must not launch.
  struct Ticket : RepeatedLaunch {
    TrialLock::Turn turn;
    bool is_first = false;
    bool looks_later = false;    // whether it has more memory, by pointers in memory: after the launch
    bool writes_unknown = true;  // what it writes is not accounted for
    Reach reach;
    FirstSight sight;
  };
  void before_launch(const Launched& launched, Ticket& ticket) noexcept;
  void after_launch(const Launched& launched, Ticket& ticket, cuda::Result result) noexcept;

  // The ticket of a graph's launch (graph_survey.cpp).
  struct Planned {  // one of its kernels
    SurveyedKernel* kernel = nullptr;
    bool is_wanted = false, is_asked = false;  // counted; and surveyed
  };
  struct GraphTicket {
    TrialLock::Turn turn;
    std::shared_ptr<KnownGraph> graph;
    cuda::Stream stream = nullptr;
    std::vector<Planned> plan;
    SurveyedKernel* culprit = nullptr;  // must not run again, and so the graph must not
    Unsurveyed its_reason = Unsurveyed::kNone;
    Reach reach;
    std::vector<DeviceRange> variables;  // of its kernels' code
    GraphMemory memory;
    bool is_first = false;
    FirstSight sight;
    bool is_prepared = false;  // what it reaches is copied
  };
  void before_graph(cuda::GraphExec exec, cuda::Stream stream, GraphTicket& ticket) noexcept;
  void after_graph(GraphTicket& ticket, cuda::Result result) noexcept;
  KnownGraphs& graphs() { return graphs_; }

  // Held while a thread changes memory or frees it, so that no launch is run again meanwhile.
  TrialLock::Turn no_trial() noexcept;
  // Waits for the extra launches that are under way, if there are any, and looks at their results.
  void look_at_results() noexcept { no_trial(); }
  DeviceMemory& memory() { return memory_; }
  // Without --survey-poison it knows no memory.
  Unwritten& unwritten() { return unwritten_; }
  // Frees the survey's own memory, because an allocation of the program's failed. Returns false if it has none.
  bool make_room() noexcept;
  void context_ends(cuda::Context context) noexcept;
  // Reports to the writer what is new. A signal handler may call it.
  void report() noexcept;
  // Returns a line for the program itself for each kernel: "varied surveyed launches name". May throw std::bad_alloc.
  std::string lines();

 private:
  Survey();
  SurveyedKernel& row_of(const std::string& name, const std::string& digest);
  // A function in a context. A kernel may be loaded several times.
  struct Loaded {
    SurveyedKernel* kernel = nullptr;
    std::optional<std::vector<DeviceRange>> variables;  // nothing: the driver does not report where they lie
  };
  Loaded& loaded(cuda::Function function);
  Unsurveyed begin_trial(const Launched& launched, const Loaded& loaded, Ticket& ticket);
  Unsurveyed end_trial(const Launched& launched, Ticket& ticket, cuda::Result result);
  static Unsurveyed find_reach(const Launched& launched, const Loaded& loaded, Ticket& ticket);
  Unsurveyed prepare(const Launched& launched, const Loaded& loaded, Ticket& ticket);
  Unsurveyed save(const Launched& launched, Ticket& ticket);
  Unsurveyed save_and_follow(Reach& reach, cuda::Stream stream,
                             const std::function<Unsurveyed(const DeviceRange& all)>& copy);
  static std::optional<bool> add_found(Reach& reach, cuda::Stream stream);
  bool is_alone(TrialLock::Turn& turn);
  Unsurveyed may_repeat(const Launched& launched, Ticket& ticket);
  Unsurveyed run(const Launched& launched, Ticket& ticket);
  void finish_under_way(TrialLock::Turn& turn);
  void drop_under_way() noexcept;
  void poison(const Launched& launched, Ticket& ticket);
  void count_as_written(const Reach& reach, Unsurveyed why);
  bool count_reached_as_written(const Launched& launched, const Loaded& loaded, Unsurveyed why);
  void count(SurveyedKernel& kernel, Unsurveyed why);
  bool is_asked_for(int64_t launch);
  void report_changes();
  void report_now_and_then();
  void forget_in_child();

  void count_unknown_graph();
  std::vector<Planned> plan(const KnownGraph& graph);
  void count_launch(const Planned& planned);
  void count_graph(const GraphTicket& ticket, size_t from, Unsurveyed why);
  Unsurveyed reach_of_graph(GraphTicket& ticket);
  Unsurveyed prepare_graph(GraphTicket& ticket);
  Unsurveyed check_graph(GraphTicket& ticket);
  bool launch_step(const KernelStep& step, const Planned& planned, GraphTicket& ticket);
  bool do_again(GraphTicket& ticket, size_t& begun);
  Unsurveyed run_graph(GraphTicket& ticket, size_t& begun);

  // Extra launches that the device works on while the program goes on.
  struct UnderWay {
    RepeatedLaunch repeated;
    KernelStep step;  // the launch
    cuda::Stream stream;
    int64_t number;  // of the launch
  };

  // How long a launch, or work before it on other streams, may take.
  const double most_patience_;  // seconds
  Patience for_launches_{most_patience_, most_patience_ / 10, most_patience_ / 100};
  Patience for_streams_{most_patience_, most_patience_ / 100, most_patience_ / 1e4};

  TrialLock lock_;  // guards the members below
  std::optional<UnderWay> under_way_;
  CopySpace space_, graph_space_, poison_space_;  // for launches; for graphs that have them; for poisoned launches
  std::array<CopySpace*, 3> spaces() { return {&space_, &graph_space_, &poison_space_}; }
  uint64_t unloads_ = 0;
  std::map<std::pair<cuda::Context, cuda::Function>, Loaded> loaded_;                       // until code is unloaded
  std::map<std::pair<std::string, std::string>, std::unique_ptr<SurveyedKernel>> kernels_;  // by name and image
  int64_t launches_ = 0;
  double begun_ = 0;  // seconds of the clock, at the first launch
  double told_ = 0;   // seconds of the clock, at the last report to the writer

  DeviceMemory memory_;
  Unwritten unwritten_;
  KnownGraphs graphs_;
};

// Returns whether what this thread does is the program's, and surveyed.
inline bool surveys() { return Survey::is_wanted() && !inside; }

}  // namespace msda::record
