// Launches the kernel in every setting of --poison, in a process of its own: a kernel that reads memory which nobody
// wrote may fault, which ends its process's use of the GPU, or never end. The other settings then run in another
// process.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "recorder/process/fenced_process.h"
#include "replay/base/options.h"
#include "replay/original/poison_result.h"
#include "replay/original/repeated_launch.h"

namespace msda::replay {

using OutputRanges = std::vector<RepeatedLaunch::Range>;

// In the process of its own: what it sends to the other one. The functions throw CannotRelaunch if that has ended.
class PoisonReport {
 public:
  void begin() { send({{"begin", true}}); }  // a setting
  void end(const OutputRanges& ranges);
  void fail(const std::string& message) { send({{"failure", message}}); }

 private:
  void send(const nlohmann::json& message) const;

  process::Channel channel_{process::FencedProcess::kSocket};
};

// Starts `msda-replay relaunch-poisoned` for the invocation, again after every setting that fails, and calls
// take(number of the setting, ranges) for each that ran. Returns what became of each. Throws CannotRelaunch if the
// launch as recorded fails, or nothing could be launched.
std::vector<PoisonOutcome> run_settings(const Options& options, const capture::Invocation& invocation,
                                        const std::vector<PoisonSetting>& settings,
                                        const std::function<void(size_t, OutputRanges)>& take);

// Launches of --poison in each setting: --repeat, or 10 if it is not given.
int64_t poison_runs(const Options& options);

}  // namespace msda::replay
