// Where the operator's replays run: on the CPU, one after the other, or on GPUs, side by side.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "replay/gpu_replay.h"
#include "replay/options.h"

namespace msda::replay {

class Devices {
 public:
  // Nothing is done before the first for_each(). Throws as chosen_device() does.
  explicit Devices(const Options& options);

  // Calls job(i, gpu) for every i below `count`, on a GPU's thread where there is one, else one after the other with
  // null. What a job throws ends all. Throws Unavailable where a GPU is asked for and cannot be had; `where` names the
  // file and the call.
  using Job = std::function<void(size_t, GpuReplay*)>;
  void for_each(size_t count, const std::string& where, const Job& job);

  struct Ran {
    std::string device;     // "cpu", "cuda:0"
    std::string why_moved;  // of what ran on the CPU: why not on the GPU; empty: it was not to
  };
  // A job's replay. Throws Unavailable where it has to run on a GPU and does not; `what` names it. Throws
  // std::bad_alloc.
  Ran run(const Backward& backward, GpuReplay* gpu, const std::string& what);

 private:
  void open(const std::string& where);

  const Options& options_;
  DeviceChoice choice_;
  bool opened_ = false;
  std::vector<std::unique_ptr<GpuReplay>> gpus_;  // several may be of one device
  std::mutex cpu_;
};

}  // namespace msda::replay
