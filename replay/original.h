// Mode original: the recorded machine code, launched again on fresh buffers with the recorded bytes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/gpu_driver.h"
#include "replay/options.h"
#include "replay/original_result.h"
#include "replay/relaunch.h"

namespace msda::replay {

class Original {
 public:
  // Nothing is done before the first run(). Throws as chosen_original() does. Refers to both arguments.
  Original(const Options& options, const capture::IsolatedReader& reader);

  struct Outcome {
    std::optional<OriginalResult> result;
    std::string left_out;  // why there is none, where the mode was not asked for; empty too for what is no launch
  };
  // The result of one invocation, whose reading began at `begun`. Throws Unavailable where the mode was asked for and
  // cannot be had. `report` hears what is being done.
  Outcome run(const capture::Invocation& invocation, std::chrono::steady_clock::time_point begun,
              const std::function<void(const std::string&)>& report);

 private:
  // Code that the device has, for as long as the program lives.
  struct Tools {
    gpu::Function digest, extremes;
  };

  Relaunch plan(const capture::Invocation& invocation);
  void open();
  void check_architecture(const capture::KernelImage& code) const;
  OriginalResult launch(const Relaunch& plan, std::chrono::steady_clock::time_point begun,
                        const std::function<void(const std::string&)>& report);

  const Options& options_;
  const capture::IsolatedReader& reader_;
  OriginalChoice choice_;
  std::optional<std::vector<capture::KernelImage>> kernels_;
  std::optional<gpu::Device> device_;
  std::string no_device_;  // why there is none, or none any more
  Tools tools_{};
  std::map<std::string, gpu::Module> modules_;  // by digest
};

}  // namespace msda::replay
