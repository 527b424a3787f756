// The survey of a program: each launch is run again on the same memory, and what differs is counted (docs/survey.md).
// Every hook calls these functions; none throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/device_memory.h"
#include "recorder/preload/survey/first_sight.h"
#include "recorder/preload/survey/surveyed_kernel.h"
#include "recorder/preload/survey/trial.h"
#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

class Survey {
 public:
  static Survey& instance();
  // Whether this process is surveyed.
  static bool is_wanted() noexcept;

  // What before_launch() passes to after_launch(). While it lives, no other thread launches, copies or frees.
  struct Ticket {
    std::unique_lock<std::timed_mutex> lock;
    SurveyedKernel* kernel = nullptr;  // null: this launch is not run again
    bool is_first = false;
    bool has_more_memory = false;  // than its parameters name
    bool looks_later = false;      // whether it has, by pointers in memory: after the launch
    bool writes_unknown = true;    // what it writes is not accounted for
    Reach reach;
    FirstSight sight;
    Trial trial;
  };
  void before_launch(const Launched& launched, Ticket& ticket) noexcept;
  void after_launch(const Launched& launched, Ticket& ticket, cuda::Result result) noexcept;

  // Held while a thread changes memory or frees it, so that no launch is run again meanwhile.
  std::unique_lock<std::timed_mutex> no_trial() noexcept;
  // Looks at the extra launches that are under way, if there are any, once they are done.
  void look_at_results() noexcept { no_trial(); }
  DeviceMemory& memory() { return memory_; }
  // With --survey-poison; otherwise it knows no memory.
  Unwritten& unwritten() { return unwritten_; }
  // The program's allocation has failed for want of memory: gives back the survey's own. False if it has none.
  bool make_room() noexcept;
  void context_ends() noexcept;
  // Tells the writer what is new. A signal handler may call it.
  void report() noexcept;
  // For the program itself: "varied surveyed launches name" of each kernel, a line each. May throw std::bad_alloc.
  std::string lines();

 private:
  Survey();
  SurveyedKernel& row_of(const std::string& name, const std::string& digest);
  // A function in a context. A kernel may be loaded several times.
  struct Loaded {
    SurveyedKernel* kernel = nullptr;
    std::optional<std::vector<DeviceRange>> variables;  // nothing: the driver does not tell where they lie
  };
  Loaded& loaded(cuda::Function function);
  void count_captured(cuda::Function function);
  Unsurveyed prepare(const Launched& launched, const Loaded& loaded, Ticket& ticket);
  Unsurveyed save(const Launched& launched, Ticket& ticket);
  static std::optional<bool> add_found(Reach& reach, cuda::Stream stream);
  Unsurveyed may_repeat(const Launched& launched, Ticket& ticket);
  static std::optional<bool> count_result(SurveyedKernel& kernel, int64_t number);
  Unsurveyed run(const Launched& launched, Ticket& ticket);
  std::unique_lock<std::timed_mutex> locked() noexcept;
  void finish_under_way();
  void keep(const Launched& launched, Ticket& ticket);
  void poison(const Launched& launched, Ticket& ticket);
  void count_as_written(const Reach& reach, Unsurveyed why);
  bool count_reached_as_written(const Launched& launched, const Loaded& loaded, Unsurveyed why);
  void try_twin(const Launched& launched, Ticket& ticket);
  void count(SurveyedKernel& kernel, Unsurveyed why);
  bool is_asked_for();
  void report_changes();
  void forget_in_child();

  // Extra launches that the device works on while the program goes on.
  struct UnderWay {
    SurveyedKernel* kernel;
    cuda::Context context;
    int64_t number;  // of the launch
  };

  std::timed_mutex mutex_;  // guards what follows
  std::optional<UnderWay> under_way_;
  CopySpace space_, poison_space_;
  uint64_t unloads_ = 0;
  std::map<std::pair<cuda::Context, cuda::Function>, Loaded> loaded_;                       // until code is unloaded
  std::map<std::pair<std::string, std::string>, std::unique_ptr<SurveyedKernel>> kernels_;  // by name and image
  int64_t launches_ = 0;
  double begun_ = 0;      // seconds of the clock, at the first launch
  double told_ = 0;       // seconds of the clock, when the writer was told last
  double patience_ = 10;  // seconds, for other streams

  DeviceMemory memory_;
  Unwritten unwritten_;
};

}  // namespace msda::record
