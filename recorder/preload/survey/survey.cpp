#include "recorder/preload/survey/survey.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/comparer.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

// How long a launch, or work before it on other streams, may take: it may wait for something that this thread is about
// to do.
constexpr double kPatience = 10, kLittlePatience = 0.1;  // seconds; the latter once that was in vain

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

bool Survey::is_wanted() noexcept { return config().survey; }

Survey& Survey::instance() {
  static constinit MadeOnce<Survey> survey;
  return survey.get([] { return std::unique_ptr<Survey>(new Survey); });
}

Survey::Survey() : space_(config().survey_share) {
  pthread_atfork(nullptr, nullptr, [] { instance().forget_in_child(); });
}

// The driver works in no child; nothing is destroyed, as another thread of the parent may have been changing it.
void Survey::forget_in_child() {
  new (&mutex_) std::timed_mutex;
  new (&space_) CopySpace(config().survey_share);
  new (&functions_) decltype(functions_);
  new (&kernels_) decltype(kernels_);
  new (&memory_) DeviceMemory;
}

std::unique_lock<std::timed_mutex> Survey::no_trial() noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!lock.try_lock_for(std::chrono::duration<double>(kPatience))) lock.release();
  return lock;
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

SurveyedKernel& Survey::kernel_of(cuda::Function function) {
  if (std::exchange(unloads_, unloads()) != unloads()) functions_.clear();
  if (const auto found = functions_.find(function); found != functions_.end()) return *found->second;
  SurveyedKernel fresh = examine(function);
  SurveyedKernel& known = row_of(fresh.layout.kernel, fresh.digest());
  fresh.number = known.number;
  if (known.launches == 0)
    known = std::move(fresh);
  else
    known.variables = std::move(fresh.variables);  // it was loaded again, or into another context
  functions_[function] = &known;
  return known;
}

// A kernel that was not launched before is not examined: that loads code, which would end the capture.
void Survey::count_captured(cuda::Function function) {
  const auto found = functions_.find(function);
  SurveyedKernel* kernel = found != functions_.end() ? found->second : nullptr;
  if (kernel == nullptr) {
    bool is_kernel = false;
    kernel = &row_of(name_of_function(function, is_kernel), "");
  }
  ++launches_;
  ++kernel->launches;
  count(*kernel, Unsurveyed::kCaptured);
}

// Copies what the launch reaches, unless it must not, or cannot, run again.
Unsurveyed Survey::prepare(const Launched& launched, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  if (kernel.never != Unsurveyed::kNone) return kernel.never;
  const auto parameters = parameter_bytes(launched, kernel.layout);
  if (!parameters) return Unsurveyed::kParameters;
  ticket.reach = reach_of(*parameters);
  for (const DeviceRange& variable : kernel.variables) ticket.reach.add(variable);
  kernel.most_bytes = std::max(kernel.most_bytes, ticket.reach.bytes());
  if (ticket.reach.is_shared) return Unsurveyed::kShared;
  if (!memory_.wait_for_streams(patience_)) {
    patience_ = kLittlePatience;
    return Unsurveyed::kBusy;
  }
  ticket.is_first = !kernel.is_checked;
  if (ticket.is_first) {
    auto all = memory_.allocations();
    all.insert(all.end(), kernel.variables.begin(), kernel.variables.end());
    if (!ticket.sight.begin(std::move(all), launched.stream)) return Unsurveyed::kRefused;
  }
  const bool is_copied = ticket.trial.begin(launched, ticket.reach, space_, config().survey_runs);
  return is_copied ? Unsurveyed::kNone : Unsurveyed::kOverLimit;
}

void Survey::before_launch(const Launched& launched, Ticket& ticket) noexcept {
  by_itself([&] {
    ticket.lock = no_trial();
    if (!ticket.lock.owns_lock() || recording().is_over()) return;
    constexpr cuda::Result kImplicitCapture = 906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
    int capturing = 0;
    const cuda::Result state = cuda::driver().is_capturing(launched.stream, &capturing);
    if (state == kImplicitCapture || capturing != 0) return count_captured(launched.function);
    if (state != cuda::kSuccess) return;  // the launch will fail, too
    SurveyedKernel& kernel = kernel_of(launched.function);
    if (!recording().wants(kernel.layout.kernel.c_str())) return;
    ++launches_;
    ++kernel.launches;
    const double begin = now_in_seconds();
    ticket.kernel = &kernel;
    const Unsurveyed why = prepare(launched, ticket);
    kernel.seconds += now_in_seconds() - begin;
    if (why != Unsurveyed::kNone) {
      count(kernel, why);
      ticket.kernel = nullptr;
    }
  });
  if (ticket.kernel == nullptr && ticket.lock.owns_lock()) ticket.lock.unlock();
}

// After the program's own launch.
Unsurveyed Survey::run(const Launched& launched, Ticket& ticket) {
  SurveyedKernel& kernel = *ticket.kernel;
  if (!ticket.trial.is_launch_done(kPatience)) return kernel.never = Unsurveyed::kBusy;
  if (ticket.is_first) {
    const auto touched = ticket.sight.end(ticket.reach);
    if (!touched) return Unsurveyed::kRefused;
    if (*touched == Touched::kOthers) return kernel.never = Unsurveyed::kOtherMemory;
    kernel.is_checked = *touched == Touched::kNamed;
  }
  const Trial::Result result = ticket.trial.run(launched);
  if (!result.trouble.empty()) return kernel.never = Unsurveyed::kRefused;
  ++kernel.surveyed;
  kernel.extra += std::ssize(result.differing);
  const auto differ = std::ranges::count_if(result.differing, [](uint64_t words) { return words > 0; });
  kernel.extra_that_differ += differ;
  kernel.most_words = std::max(kernel.most_words, std::ranges::max(result.differing));
  if (differ == 0) return Unsurveyed::kNone;
  if (kernel.varied++ == 0) {
    kernel.first_varied = launches_;
    kernel.caller = caller_of_launch();
  }
  try_twin(launched, ticket);
  return Unsurveyed::kNone;
}

// Of a launch that varied: whether the order of additions explains it.
void Survey::try_twin(const Launched& launched, Ticket& ticket) {
  constexpr int64_t kMostTrials = 4;
  constexpr int kTimes = 3;
  SurveyedKernel& kernel = *ticket.kernel;
  if (kernel.twin_trials == kMostTrials) return;
  const OwnCode loading;  // now, or with the first launch
  if (!kernel.twin) {
    kernel.twin = load_twin(*kernel.image, kernel.layout.kernel, kernel.facts.architecture, launched.shared_bytes);
  }
  if (kernel.twin->function == nullptr) return;
  const auto repeats = ticket.trial.repeats(launched, kernel.twin->function, kTimes);
  kernel.twin->is_refused = !repeats;
  if (!repeats) {
    kernel.twin->function = nullptr;
    return;
  }
  ++kernel.twin_trials;
  kernel.twin_equal += *repeats;
}

void Survey::after_launch(const Launched& launched, Ticket& ticket, cuda::Result result) noexcept {
  if (ticket.kernel == nullptr) return;
  by_itself([&] {
    SurveyedKernel& kernel = *ticket.kernel;
    const double begin = now_in_seconds();
    const Unsurveyed why = result == cuda::kSuccess ? run(launched, ticket) : Unsurveyed::kRefused;
    kernel.seconds += now_in_seconds() - begin;
    kernel.is_told = false;
    if (why != Unsurveyed::kNone) count(kernel, why);
    constexpr double kOften = 1;  // seconds; what a killed program has not told is lost
    if (now_in_seconds() - told_ > kOften) report_changes();
  });
  if (ticket.lock.owns_lock()) ticket.lock.unlock();
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

void Survey::report() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  try {
    report_changes();
  } catch (...) {  // no memory
  }
}

bool Survey::make_room() noexcept {
  bool made = false;
  by_itself([&] {
    const auto lock = no_trial();
    if (lock.owns_lock()) made = space_.give_back();
  });
  return made;
}

void Survey::context_ends() noexcept {
  const auto lock = no_trial();
  space_.context_ends();
  memory_.context_ends();
  Comparer::instance().context_ends();
}

}  // namespace msda::record
