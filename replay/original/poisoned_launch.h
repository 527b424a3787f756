// Launches the kernel with one memory changed: a setting of --poison. Runs in a process of its own (poison_runs.h).
#pragma once

#include <vector>

#include "replay/gpu/driver.h"
#include "replay/original/poison_settings.h"
#include "replay/original/repeated_launch.h"

namespace msda::replay {

inline constexpr char kFillSharedKernel[] = "msda_replay_fill_shared";

class PoisonedLaunch {
 public:
  // Keeps references; `repeated` is of `plan`, and its buffers are not built yet. `fill_shared`: fill_shared.ptx.
  PoisonedLaunch(const gpu::Device& device, gpu::Function fill_shared, const Relaunch& plan, RepeatedLaunch& repeated);

  // Returns the outputs' ranges over `runs` launches in this setting. Throws gpu::Failure.
  std::vector<RepeatedLaunch::Range> run(const PoisonSetting& setting, int64_t runs);

 private:
  void fill_output(const PoisonSetting& setting) const;
  void fill_gaps(PoisonSetting::Contents contents) const;
  void fill_scratch(const PoisonSetting& setting) const;
  void fill_shared(PoisonSetting::Contents contents) const;

  const gpu::Device& device_;
  const gpu::Function fill_shared_;
  const Relaunch& plan_;
  RepeatedLaunch& repeated_;
  int shared_bytes_ = 0, multiprocessors_ = 0;
};

}  // namespace msda::replay
