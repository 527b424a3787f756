// Mode original: launches the recorded machine code again, on new buffers with the recorded bytes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/gpu/driver.h"
#include "replay/original/original_result.h"
#include "replay/original/poison_result.h"
#include "replay/original/poison_runs.h"
#include "replay/original/relaunch.h"
#include "replay/original/repeated_launch.h"

namespace msda::replay {

class Original {
 public:
  // Does nothing before the first run(). Throws as chosen_original() does. Keeps references to both arguments.
  Original(const Options& options, const capture::IsolatedReader& reader);

  struct Outcome {
    std::optional<OriginalResult> result;
    std::optional<PoisonResult> poison;  // of --poison
    std::string
        left_out;  // why there is no result, if the mode was not requested; also empty for a call that is no launch
  };
  // Returns the result of one invocation, whose reading began at `begun`. Throws Unavailable if the mode was requested
  // and is unavailable. Calls `report` with the progress.
  Outcome run(const capture::Invocation& invocation, std::chrono::steady_clock::time_point begun,
              const std::function<void(const std::string&)>& report);

  // The launches of --poison in the settings from `first` on, in a process of their own. Throws gpu::Failure,
  // CannotRelaunch.
  void run_poisoned(const capture::Invocation& invocation, size_t first, PoisonReport& report);

 private:
  // Code loaded into the device, for as long as the program lives.
  struct Tools {
    gpu::Function digest, extremes;
  };

  Relaunch plan(const capture::Invocation& invocation);
  void open();
  void check_architecture(const capture::KernelImage& code) const;
  RepeatedLaunch prepare(const Relaunch& plan);
  PoisonResult poison(const capture::Invocation& invocation, const Relaunch& plan);

  const Options& options_;
  const capture::IsolatedReader& reader_;
  OriginalChoice choice_;
  std::optional<std::vector<capture::KernelImage>> kernels_;
  std::optional<gpu::Device> device_;
  std::string no_device_;  // why there is no device, or no longer
  Tools tools_{};
  std::map<std::string, gpu::Module> modules_;  // by digest
};

}  // namespace msda::replay
