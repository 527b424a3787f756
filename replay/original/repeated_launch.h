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

  // Keeps references to all arguments. Does nothing on the device yet. Throws CannotRelaunch if the code is not the
  // plan's.
  RepeatedLaunch(const gpu::Device& device, const Tools& tools, gpu::Function function, const Relaunch& plan,
                 const capture::IsolatedReader& reader);

  // Throws gpu::Failure or CannotRelaunch. The time to the first result counts from `begun`.
  OriginalResult run(int64_t runs, Clock::time_point begun, const std::function<void(const std::string&)>& report);

 private:
  // An output on the device.
  struct Output {
    const Buffer* buffer;
    gpu::DevicePointer address;
    gpu::DeviceMemory before;           // what it held before the launch
    gpu::DeviceMemory lowest, highest;  // of each element in any run so far
    std::pair<uint64_t, uint64_t> recorded_digest{};
    std::set<std::pair<uint64_t, uint64_t>> digests;  // of the runs
  };

  void check_code() const;
  void allow_launch() const;
  gpu::DevicePointer place_of(uint64_t recorded_address) const;
  void put(const Buffer& buffer, const capture::TensorInfo& info) const;
  void build_buffers(bool repeats);
  void reset() const;
  void launch() const;
  void digest(size_t slot);
  std::pair<uint64_t, uint64_t> digest_in(size_t slot, size_t output) const;
  void add_extremes(const Output& output) const;
  void run_once(size_t slot, bool is_first, bool repeats);
  void take_batch(size_t count, std::vector<double>& milliseconds);
  std::vector<std::byte> row_major(const Buffer& buffer, gpu::DevicePointer from) const;
  void compare_with_recorded(const Output& output, OriginalTensor& tensor) const;
  void tell_spread(const Output& output, OriginalTensor& tensor) const;

  // Launches enqueued at a time: enough that the device never waits for the host.
  static constexpr size_t kBatch = 32;

  const gpu::Device& device_;
  const Tools tools_;
  const gpu::Function function_;
  const Relaunch& plan_;
  const capture::IsolatedReader& reader_;
  std::vector<gpu::DeviceMemory> regions_;
  std::vector<gpu::DevicePointer> region_places_;  // where the recorded regions begin on this device
  std::vector<std::byte> parameters_;
  std::vector<Output> outputs_;
  gpu::PinnedMemory slots_;
  gpu::DeviceMemory sums_;
  uint64_t sequence_ = 0;
  std::vector<gpu::Timestamp> before_, after_;
};

}  // namespace msda::replay
