#include "recorder/preload/survey/repeated_launch.h"

#include <algorithm>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/survey/kept_launch.h"
#include "recorder/preload/survey/poison_trial.h"

namespace msda::record {
namespace {

// So many launches of a kernel that differed only beside a neighbour are run again without one, often.
constexpr int64_t kTriedAlone = 4;

// Returns whether an extra launch differed. Nothing if the driver or the device failed.
std::optional<bool> count_extra(SurveyedKernel& kernel, const ExtraLaunches& extra) {
  const auto differing = Trial::end();
  if (!differing) return std::nullopt;
  int64_t differ = 0;
  for (size_t i = 0; i < differing->size(); ++i) {
    const bool is_beside = extra.is_beside(static_cast<int>(i)), differs = (*differing)[i] > 0;
    differ += differs;
    kernel.extra_beside += is_beside;
    kernel.beside_that_differ += is_beside && differs;
  }
  kernel.extra += std::ssize(*differing);
  kernel.extra_that_differ += differ;
  kernel.most_words = std::max(kernel.most_words, std::ranges::max(*differing));
  return differ > 0;
}

// Runs a launch that varied again without a neighbour: two runs of the program have the device for themselves, and the
// results need not differ there. Returns false if the driver or the device failed.
bool try_alone(const Launched& launched, RepeatedLaunch& repeated) {
  SurveyedKernel& kernel = *repeated.kernel;
  if (kernel.differs_alone() || kernel.tried_alone == kTriedAlone) return true;
  ++kernel.tried_alone;
  return repeated.trial.begin_alone(launched) && count_extra(kernel, Trial::kAlone);
}

// Finds out whether the order of additions explains why a launch varied.
void try_twin(const Launched& launched, RepeatedLaunch& repeated) {
  constexpr int64_t kMostTrials = 4;
  constexpr int kTimes = 3;
  SurveyedKernel& kernel = *repeated.kernel;
  if (kernel.twin_trials == kMostTrials) return;
  const OwnCode loading;  // now, or with the first launch
  if (!kernel.twin) {
    kernel.twin = load_twin(*kernel.image, kernel.layout.kernel, kernel.facts.architecture, launched.shared_bytes);
  }
  if (kernel.twin->function == nullptr) return;
  const bool has_values = copy_values(*kernel.image, launched.function, *kernel.twin, launched.stream);
  const auto repeats = has_values ? repeated.trial.repeats(launched, kernel.twin->function, kTimes) : std::nullopt;
  kernel.twin->is_refused = !repeats;
  if (!repeats) {
    kernel.twin->function = nullptr;
    return;
  }
  ++kernel.twin_trials;
  kernel.twin_equal += *repeats;
  if (!*repeats || kernel.evidence) return;
  kernel.evidence = evidence_of(launched, *kernel.image, kernel.layout.kernel, kernel.facts.architecture,
                                repeated.trial, config().survey_share);
}

}  // namespace

std::optional<bool> count_result(const RepeatedLaunch& launch, int64_t number) {
  SurveyedKernel& kernel = *launch.kernel;
  const auto varies = count_extra(kernel, launch.trial.extra());
  if (!varies) return std::nullopt;
  ++kernel.surveyed;
  if (*varies && kernel.varied++ == 0) kernel.first_varied = number;
  kernel.is_told = false;
  return varies;
}

void keep(const Launched& launched, RepeatedLaunch& repeated, std::span<const UnwrittenMemory> unwritten) {
  SurveyedKernel& kernel = *repeated.kernel;
  if (kernel.kept > 0 || repeated.has_more_memory) return;
  kernel.kept += keep_launch(launched, kernel, repeated.trial, unwritten);
}

void explain(const Launched& launched, RepeatedLaunch& repeated, const Unwritten& unwritten) {
  SurveyedKernel& kernel = *repeated.kernel;
  if (!try_alone(launched, repeated)) {
    kernel.never = Unsurveyed::kRefused;
    return;
  }
  if (kernel.varied == 1) {
    kernel.additions = places_of_additions(*kernel.image, kernel.layout.kernel, kernel.facts.architecture);
    kernel.communication = places_of_communication(*kernel.image, kernel.layout.kernel, kernel.facts.architecture);
  }
  try_twin(launched, repeated);
  if (kernel.kept == 0) keep(launched, repeated, unwritten_in(repeated.trial, unwritten));
}

}  // namespace msda::record
