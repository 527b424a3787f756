// Repeats a launch. All outputs except the first run's are examined on the device: outputs that depend on the order of
// sums differ in each run, and copying them to the host would take longer than the launch.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "recorder/device/digest_launch.h"
#include "replay/gpu/driver.h"
#include "replay/original/device_launch.h"
#include "replay/original/original_result.h"
#include "replay/original/relaunch.h"

namespace msda::replay {

inline constexpr char kExtremesKernel[] = "msda_replay_extremes";

class RepeatedLaunch {
 public:
  struct Tools {
    gpu::Function digest, extremes;  // recorder/device/digest.ptx, extremes.ptx
  };
  using Clock = std::chrono::steady_clock;

  // Keeps references to all arguments. Allocates no buffers yet. Throws CannotRelaunch if the code is not the plan's.
  RepeatedLaunch(const gpu::Device& device, const Tools& tools, gpu::Function function, const Relaunch& plan,
                 const capture::IsolatedReader& reader);

  // Throws gpu::Failure or CannotRelaunch. The time to the first result counts from `begun`.
  OriginalResult run(int64_t runs, Clock::time_point begun, const std::function<void(const std::string&)>& report);

  // Returns the launch on the device, between calls of repeat().
  DeviceLaunch& on_device() { return on_device_; }
  // Allocates the buffers for repeat(); run() does so itself. Throws gpu::Failure or CannotRelaunch.
  void build(bool repeats);
  // What an output held after several runs, row-major.
  struct Range {
    int64_t distinct = 0;  // number of different results
    std::vector<std::byte> lowest, highest, first;
  };
  // Launches `runs` times; `prepare` enqueues what is to happen between the reset and the launch. Returns the ranges of
  // the outputs. Throws gpu::Failure.
  std::vector<Range> repeat(int64_t runs, const std::function<void()>& prepare);

 private:
  // An output's results so far.
  struct Results {
    gpu::DeviceMemory lowest, highest;  // of each element in any run so far
    std::pair<uint64_t, uint64_t> recorded_digest{};
    std::set<std::pair<uint64_t, uint64_t>> digests;  // of the runs
  };

  void digest(size_t slot);
  std::pair<uint64_t, uint64_t> digest_in(size_t slot, size_t output) const;
  void add_extremes(size_t output) const;
  void run_once(size_t slot, bool is_first, bool repeats, const std::function<void()>& prepare = {});
  void take_batch(size_t count, std::vector<double>& milliseconds);
  void compare_with_recorded(size_t output, OriginalTensor& tensor) const;
  void set_spread(size_t output, OriginalTensor& tensor) const;

  // Launches enqueued at a time: enough that the device never waits for the host.
  static constexpr size_t kBatch = 32;
  static constexpr size_t kSlotBytes = record::digest_slot_bytes(record::kMostDigestRanges);  // for each of them

  const gpu::Device& device_;
  const Tools tools_;
  const Relaunch& plan_;
  const capture::IsolatedReader& reader_;
  DeviceLaunch on_device_;
  std::vector<Results> results_;  // by output
  gpu::PinnedMemory slots_;
  gpu::DeviceMemory sums_;
  uint64_t sequence_ = 0;
  std::vector<gpu::Timestamp> before_, after_;
};

}  // namespace msda::replay
