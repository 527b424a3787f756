#include "recorder/preload/survey/survey.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/neighbour.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/driver/poisoner.h"
#include "recorder/preload/driver/saver.h"
#include "recorder/preload/driver/settler.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/labels.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/survey/foreign_memory.h"
#include "recorder/preload/survey/kept_launch.h"
#include "recorder/preload/survey/pointers.h"
#include "recorder/preload/survey/poison_trial.h"
#include "recorder/text/demangle.h"

namespace msda::record {
namespace {

// So many launches of a kernel are watched until they end; with later ones the device goes on alone where it can.
constexpr int64_t kWatched = 2;

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A neighbour beside it shows a race in a kernel that by its code cannot vary, but costs more than the launch.
ExtraLaunches extra_launches(const SurveyedKernel& kernel) {
  constexpr int64_t kAlways = 8, kOneOf = 4;
  const bool is_beside = !kernel.cannot_vary() || kernel.surveyed < kAlways || kernel.surveyed % kOneOf == 0;
  return {config().survey_runs, config().survey_neighbour && is_beside};
}

}  // namespace

bool Survey::is_wanted() noexcept { return config().survey; }

Survey& Survey::instance() {
  static constinit MadeOnce<Survey> survey;
  return survey.get([] { return std::unique_ptr<Survey>(new Survey); });
}

Survey::Survey()
    : most_patience_(config().survey_patience),
      space_(config().survey_share),
      graph_space_(config().survey_share),
      poison_space_(config().survey_share) {
  pthread_atfork(nullptr, nullptr, [] { instance().forget_in_child(); });
}

// The driver does not work in a child. Nothing is destroyed, because another thread of the parent may have been
// changing it.
void Survey::forget_in_child() {
  new (&lock_) TrialLock;
  for (CopySpace* space : spaces()) new (space) CopySpace(config().survey_share);
  new (&loaded_) decltype(loaded_);
  new (&under_way_) decltype(under_way_);
  new (&kernels_) decltype(kernels_);
  new (&memory_) DeviceMemory;
  new (&graphs_) KnownGraphs;
  new (&unwritten_) Unwritten;
  new (&ForeignMemory::instance()) ForeignMemory;
}

TrialLock::Turn Survey::no_trial() noexcept {
  TrialLock::Turn turn = lock_.take(most_patience_);
  if (turn.owns_lock() && under_way_) by_itself([&] { finish_under_way(turn); });
  turn.pass();
  return turn;
}

SurveyedKernel& Survey::row_of(const std::string& name, const std::string& digest) {
  auto& row = kernels_[{name, digest}];
  if (row == nullptr) {
    row = std::make_unique<SurveyedKernel>();
    row->number = kernels_.size() - 1;
    row->layout.kernel = name;
  }
  return *row;
}

Survey::Loaded& Survey::loaded(cuda::Function function) {
  if (std::exchange(unloads_, unloads()) != unloads()) loaded_.clear();
  cuda::Context context = nullptr;
  cuda::driver().current_context(&context);
  Loaded& entry = loaded_[{context, function}];
  if (entry.kernel != nullptr) return entry;
  SurveyedKernel fresh = examine(function);
  SurveyedKernel& known = row_of(fresh.layout.kernel, fresh.digest());
  fresh.number = known.number;
  if (known.launches == 0) known = std::move(fresh);
  entry.variables = variables_of(known, function);
  entry.kernel = &known;
  return entry;
}

// Adds the memory that the words found by the last copy point to. Returns whether that is more than before; nothing if
// that is not known.
std::optional<bool> Survey::add_found(Reach& reach, cuda::Stream stream) {
  const auto words = Saver::instance().found(stream);
  if (!words) return std::nullopt;
  const size_t before = reach.size();
  for (const uint64_t word : std::set(words->begin(), words->end())) reach.add_allocation_of(word);
  return reach.size() > before;
}

// Copies what the launch reaches by its parameters, what pointers there point into, and so on. A number that looks like
// a pointer costs a copy, no more.
Unsurveyed Survey::save(const Launched& launched, Ticket& ticket) {
  const auto copy = [&](const DeviceRange& all) {
    SurveyedKernel& kernel = *ticket.kernel;
    if (!ticket.trial.reserve(launched, ticket.reach, space_, kernel.left_on_host, extra_launches(kernel))) {
      return Unsurveyed::kOverLimit;
    }
    return ticket.trial.save(all) ? Unsurveyed::kNone : Unsurveyed::kRefused;
  };
  if (ticket.looks_later) return copy(memory_.hull());
  const size_t named = ticket.reach.size();
  const Unsurveyed why = save_and_follow(ticket.reach, launched.stream, copy);
  ticket.kernel->has_pointers |= ticket.reach.size() > named;
  return why;
}

// `copy` makes room for copies of what is reached so far, and begins to copy it and to look for pointers.
Unsurveyed Survey::save_and_follow(Reach& reach, cuda::Stream stream,
                                   const std::function<Unsurveyed(const DeviceRange& all)>& copy) {
  const DeviceRange all = memory_.hull();
  for (size_t looked_at = 0;;) {
    while (looked_at != reach.shared.size()) {
      looked_at = reach.shared.size();
      if (!follow_on_host(reach, all)) return Unsurveyed::kOtherMemory;
    }
    if (const Unsurveyed why = copy(all); why != Unsurveyed::kNone) return why;
    if (cuda::driver().synchronize(stream) != cuda::kSuccess) return Unsurveyed::kRefused;
    const auto has_more = add_found(reach, stream);
    if (!has_more) return Unsurveyed::kOtherMemory;
    if (!*has_more) return Unsurveyed::kNone;
  }
}

// Waits for other threads' calls, and for the work that they and this thread have given the device.
bool Survey::is_alone(TrialLock::Turn& turn) {
  return for_streams_.note(turn.is_alone(for_streams_.seconds()) && memory_.wait_for_streams(for_streams_.seconds()));
}

// Finds what its parameters name. Returns a reason if the launch must not, or cannot, run again.
Unsurveyed Survey::find_reach(const Launched& launched, const Loaded& loaded, Ticket& ticket) {
  SurveyedKernel& kernel = *loaded.kernel;
  if (kernel.never != Unsurveyed::kNone) return kernel.never;
  const auto parameters = parameter_bytes(launched, kernel.layout);
  if (!parameters) return Unsurveyed::kParameters;
  ticket.reach = reach_of(*parameters);
  return loaded.variables ? Unsurveyed::kNone : kernel.never = Unsurveyed::kUnknownCode;
}

// Copies what the launch reaches.
Unsurveyed Survey::prepare(const Launched& launched, const Loaded& loaded, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  if (kernel.never != Unsurveyed::kNone) return kernel.never;  // since a moment ago
  const size_t named = ticket.reach.ranges().size();
  for (const DeviceRange& variable : *loaded.variables) ticket.reach.add(variable);
  if (!is_alone(ticket.turn)) return Unsurveyed::kBusy;
  ticket.looks_later =
      kernel.is_checked && kernel.surveyed >= kWatched && !kernel.has_pointers && ticket.reach.shared.empty();
  if (const Unsurveyed why = save(launched, ticket); why != Unsurveyed::kNone) return why;
  ticket.has_more_memory = ticket.reach.ranges().size() > named || !ticket.reach.shared.empty();
  kernel.most_bytes = std::max(kernel.most_bytes, ticket.reach.bytes());
  ticket.is_first = !kernel.is_checked;
  if (ticket.is_first) {
    auto all = memory_.allocations_here();
    all.insert(all.end(), loaded.variables->begin(), loaded.variables->end());
    if (!ticket.sight.begin(std::move(all), launched.stream)) return Unsurveyed::kRefused;
  }
  return Unsurveyed::kNone;
}

void Survey::before_launch(const Launched& launched, Ticket& ticket) noexcept {
  by_itself([&] {
    ticket.turn = lock_.take(most_patience_);
    memory_.stream_used(launched.stream);
    if (!ticket.turn.owns_lock() || recording().is_over()) return;
    int capturing = 0;
    // A launch that is captured into a graph does not run: it is counted when the graph is launched. A launch that the
    // driver will refuse does not run either.
    if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
      ticket.writes_unknown = false;
      return;
    }
    const Loaded& loaded = this->loaded(launched.function);
    SurveyedKernel& kernel = *loaded.kernel;
    if (kernel.layout.kernel.empty()) return;  // no function: the driver will refuse it
    const auto leave_out = [&](Unsurveyed why) {
      finish_under_way(ticket.turn);
      ticket.writes_unknown = !count_reached_as_written(launched, loaded, why);
    };
    if (!recording().wants(kernel.layout.kernel.c_str())) return leave_out(Unsurveyed::kNotAsked);
    ++launches_;
    ++kernel.launches;
    if (!is_asked_for(launches_)) {
      count(kernel, Unsurveyed::kNotAsked);
      return leave_out(Unsurveyed::kNotAsked);
    }
    if (const Unsurveyed why = begin_trial(launched, loaded, ticket); why != Unsurveyed::kNone) leave_out(why);
  });
  if (ticket.kernel != nullptr) return;
  if (ticket.writes_unknown) unwritten_.all_written();
  ticket.turn.pass();
}

Unsurveyed Survey::begin_trial(const Launched& launched, const Loaded& loaded, Ticket& ticket) {
  const double begin = now_in_seconds();
  ticket.kernel = loaded.kernel;
  Unsurveyed why = find_reach(launched, loaded, ticket);
  const double finish = now_in_seconds();
  finish_under_way(ticket.turn);  // until then the device works on that
  loaded.kernel->seconds -= now_in_seconds() - finish;
  if (why == Unsurveyed::kNone) why = prepare(launched, loaded, ticket);
  loaded.kernel->seconds += now_in_seconds() - begin;
  if (why != Unsurveyed::kNone) {
    count(*loaded.kernel, why);
    ticket.kernel = nullptr;
  }
  return why;
}

// Returns, after the program's own launch, why it may not run again, if there is a reason.
Unsurveyed Survey::may_repeat(const Launched& launched, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  if (!ticket.trial.is_launch_done(for_launches_.seconds())) {
    const bool is_busy = cuda::driver().query(launched.stream) == cuda::kNotReady;  // or the query failed
    if (is_busy) for_launches_.note(/*in_time=*/false);
    return kernel.never = is_busy ? Unsurveyed::kBusy : Unsurveyed::kRefused;
  }
  for_launches_.note(/*in_time=*/true);
  if (ticket.looks_later) {
    const auto has_more = add_found(ticket.reach, launched.stream);
    kernel.has_pointers = has_more.value_or(true);
    return kernel.has_pointers ? Unsurveyed::kOtherMemory : Unsurveyed::kNone;
  }
  if (ticket.is_first) {
    const auto touched = ticket.sight.end(ticket.reach);
    if (!touched) return Unsurveyed::kRefused;
    if (*touched == Touched::kOthers) return kernel.never = Unsurveyed::kOtherMemory;
    kernel.is_checked = *touched == Touched::kNamed;
  }
  const auto shares = ticket.trial.changed_shared_memory();
  if (!shares) return Unsurveyed::kRefused;
  return *shares ? kernel.never = Unsurveyed::kShared : Unsurveyed::kNone;
}

void Survey::finish_under_way(TrialLock::Turn& turn) {
  if (!under_way_) return;
  const double begin = now_in_seconds();
  UnderWay launch = *std::exchange(under_way_, std::nullopt);
  SurveyedKernel& kernel = *launch.repeated.kernel;
  const InContext current(launch.step.context);
  const auto varies = count_result(launch.repeated, launch.number);
  if (!varies) count(kernel, kernel.never = Unsurveyed::kRefused);
  // If the program has begun to capture a graph, nothing of the recorder's must get into it.
  int capturing = 0;
  if (varies.value_or(false) && cuda::driver().is_capturing(launch.stream, &capturing) == cuda::kSuccess &&
      capturing == 0 && turn.begin_repeating()) {
    explain(LaunchOfStep(launch.step, launch.stream).launched(), launch.repeated, unwritten_);
    turn.end_repeating();
  }
  kernel.seconds += now_in_seconds() - begin;
}

// Drops the results, which nobody can look at any more.
void Survey::drop_under_way() noexcept try {
  if (under_way_) count(*std::exchange(under_way_, std::nullopt)->repeated.kernel, Unsurveyed::kBusy);
} catch (...) {  // no memory
}

Unsurveyed Survey::run(const Launched& launched, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  if (const Unsurveyed why = may_repeat(launched, ticket); why != Unsurveyed::kNone) return why;
  if (!ticket.turn.begin_repeating()) return Unsurveyed::kBusy;
  if (!ticket.trial.begin(launched)) return kernel.never = Unsurveyed::kRefused;
  // The kernel never varied. If it varies now, the caller of its next launch that varies is recorded.
  if (kernel.surveyed >= kWatched && kernel.varied == 0 && !ticket.reach.is_seen_by_others() &&
      !config().survey_poison) {
    under_way_ = UnderWay{ticket, step_of(launched, kernel.layout), launched.stream, launches_};
    cuda::driver().current_context(&under_way_->step.context);
    return Unsurveyed::kNone;
  }
  const auto varies = count_result(ticket, launches_);
  if (!varies) return kernel.never = Unsurveyed::kRefused;
  if (*varies && kernel.caller.is_empty()) kernel.caller = caller_of_launch();
  if (*varies) explain(launched, ticket, unwritten_);
  return Unsurveyed::kNone;
}

// Call it after run(). If a kernel varies, it is not known why its results differ.
void Survey::poison(const Launched& launched, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  const bool is_judged = kernel.varied == 0;
  PoisonTrial trial(launched, ticket.trial, unwritten_);
  const PoisonTrial::Result result = trial.run(poison_space_, is_judged, kernel.cannot_vary() ? 1 : 3);
  using enum PoisonTrial::Result::State;
  if (result.state == kRefused) kernel.never = Unsurveyed::kRefused;
  kernel.poison.no_room += result.state == kNoRoom;
  kernel.poison.compared += is_judged && result.state == kDone;
  if (result.state != kDone || result.depend == 0) return;
  kernel.poison.most_words = std::max(kernel.poison.most_words, result.depend);
  if (kernel.poison.depend++ > 0) return;
  kernel.poison.first = launches_;
  kernel.poison.unwritten = result.unwritten;
  kernel.poison.allocation_bytes = result.allocation_bytes;
  kernel.caller = caller_of_launch();
  keep(launched, ticket, trial.found());
}

// Counts what a launch that is not surveyed reaches as written. Returns false if that is not known.
bool Survey::count_reached_as_written(const Launched& launched, const Loaded& loaded, Unsurveyed why) {
  if (!config().survey_poison) return false;
  using enum Unsurveyed;
  constexpr Unsurveyed kUnknownReach[] = {kCollective, kOtherMemory, kUnknownCode, kCallsOut, kBusy, kParameters};
  const Unsurveyed never = loaded.kernel->never;
  if (std::ranges::find(kUnknownReach, why) != std::end(kUnknownReach)) return false;
  if (std::ranges::find(kUnknownReach, never) != std::end(kUnknownReach) || !loaded.variables) return false;
  const auto parameters = parameter_bytes(launched, loaded.kernel->layout);
  if (!parameters) return false;
  Ticket reached;
  reached.kernel = loaded.kernel;
  reached.reach = reach_of(*parameters);
  for (const DeviceRange& variable : *loaded.variables) reached.reach.add(variable);
  if (!for_streams_.note(memory_.wait_for_streams(for_streams_.seconds()))) return false;
  if (save(launched, reached) != Unsurveyed::kNone) return false;
  count_as_written(reached.reach, why);
  return true;
}

void Survey::count_as_written(const Reach& reach, Unsurveyed why) {
  if (why == Unsurveyed::kOtherMemory) return unwritten_.all_written();
  for (const DeviceRange& range : reach.ranges()) unwritten_.written(range);
  for (const DeviceRange& range : reach.shared) unwritten_.written(range);
}

Unsurveyed Survey::end_trial(const Launched& launched, Ticket& ticket, cuda::Result result) {
  SurveyedKernel& kernel = *ticket.kernel;
  const double begin = now_in_seconds();
  const Unsurveyed why = result == cuda::kSuccess ? run(launched, ticket) : Unsurveyed::kRefused;
  kernel.seconds += now_in_seconds() - begin;
  kernel.is_told = false;
  if (why != Unsurveyed::kNone) count(kernel, why);
  return why;
}

void Survey::after_launch(const Launched& launched, Ticket& ticket, cuda::Result result) noexcept {
  if (ticket.kernel == nullptr) return;
  Unsurveyed why = Unsurveyed::kOtherMemory;
  by_itself([&] {
    why = end_trial(launched, ticket, result);
    if (config().survey_poison && why == Unsurveyed::kNone) {
      poison(launched, ticket);
      ticket.writes_unknown = false;
    }
    report_now_and_then();
  });
  if (ticket.writes_unknown) count_as_written(ticket.reach, why);
  ticket.turn.end();
}

// `launch` is the launch's number among the program's, from 1 on.
bool Survey::is_asked_for(int64_t launch) {
  const Config& settings = config();
  const auto number = static_cast<uint64_t>(launch);
  if (begun_ == 0) begun_ = now_in_seconds();
  if (number < settings.survey_from || (settings.survey_to > 0 && number > settings.survey_to)) return false;
  const auto seconds = static_cast<double>(settings.survey_seconds);
  if (seconds > 0 && now_in_seconds() - begun_ > seconds) return false;
  return settings.survey_label.empty() || current_label().find(settings.survey_label) != std::string::npos;
}

void Survey::count(SurveyedKernel& kernel, Unsurveyed why) {
  ++kernel.unsurveyed[why];
  kernel.is_told = false;
}

void Survey::report_changes() {
  told_ = now_in_seconds();
  for (const auto& [name, kernel] : kernels_) {
    if (kernel->launches > 0 && !std::exchange(kernel->is_told, true)) recording().deliver_survey(kernel->message());
  }
}

// What has not been reported is lost when the program is killed.
void Survey::report_now_and_then() {
  constexpr double kOften = 1;  // seconds
  if (now_in_seconds() - told_ > kOften) report_changes();
}

void Survey::report() noexcept {
  constexpr double kShortly = 1;  // seconds
  const TrialLock::Turn turn = lock_.take_at_end(kShortly);
  if (!turn.owns_lock()) return;
  try {
    drop_under_way();  // the program ends; the driver may have ended already, or have been interrupted by a signal
    report_changes();
  } catch (...) {  // no memory
  }
}

std::string Survey::lines() {
  auto turn = lock_.take(most_patience_);
  std::string lines;
  if (!turn.owns_lock()) return lines;
  by_itself([&] { finish_under_way(turn); });
  for (const auto& [name, kernel] : kernels_) {
    const int64_t varied = kernel->varies_only_beside() ? 0 : kernel->varied;
    for (const int64_t count : {varied, kernel->surveyed, kernel->launches}) lines += std::to_string(count) + " ";
    lines += text::demangled(kernel->layout.kernel) + "\n";
  }
  return lines;
}

bool Survey::make_room() noexcept {
  bool made = false;
  by_itself([&] {
    auto turn = lock_.take(most_patience_);
    if (!turn.owns_lock()) return;
    finish_under_way(turn);
    for (CopySpace* space : spaces()) made = space->give_back() || made;
  });
  return made;
}

void Survey::context_ends(cuda::Context context) noexcept {
  const auto turn = lock_.take(most_patience_);
  drop_under_way();
  for (CopySpace* space : spaces()) space->context_ends(context);
  graphs_.context_ends();
  memory_.context_ends(context);
  unwritten_.all_written();
  Neighbour::instance().context_ends(context);
  Saver::instance().context_ends(context);
  Settler::instance().context_ends(context);
  Poisoner::instance().context_ends();
  cuda::forget_own(context);
}

}  // namespace msda::record
