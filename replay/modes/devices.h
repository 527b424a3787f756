// Runs the operator's replays on the CPU, one after the other, or on GPUs, in parallel.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "replay/base/options.h"
#include "replay/gpu/replay.h"

namespace msda::replay {

class Devices {
 public:
  // Does nothing before the first for_each(). Throws as chosen_device() does.
  explicit Devices(const Options& options);

  // Calls job(i, gpu) for every i below `count`, on a GPU's thread, or, without GPUs, one after the other with null. An
  // exception of a job ends all. Throws Unavailable if a requested GPU is unavailable; `where` names the file and the
  // call.
  using Job = std::function<void(size_t, GpuReplay*)>;
  void for_each(size_t count, const std::string& where, const Job& job);

  struct Ran {
    std::string device;     // "cpu", "cuda:0"
    std::string why_moved;  // why it ran on the CPU and not on the GPU; empty if no GPU was requested
  };
  // Runs a job's replay: `on_gpu` on the job's GPU, if there is one, otherwise on_cpu(). `on_gpu` is null for an
  // operator without kernels for a GPU. Throws Unavailable if it must run on a GPU and cannot; `what` names it. Throws
  // std::bad_alloc.
  Ran run(const analysis::DeviceCall* on_gpu, const std::function<void()>& on_cpu, GpuReplay* gpu,
          const std::string& what);

 private:
  void open(const std::string& where);

  const Options& options_;
  DeviceChoice choice_;
  bool opened_ = false;
  std::vector<std::unique_ptr<GpuReplay>> gpus_;  // several may use one device
  std::mutex cpu_;
};

}  // namespace msda::replay
