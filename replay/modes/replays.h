// The replays of one call, which own their results.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "analysis/model/owned_side.h"
#include "replay/calls/loaded_call.h"
#include "replay/modes/devices.h"
#include "replay/original/original_result.h"

namespace msda::replay {

struct ReplaySettings {
  std::vector<msda_mode> modes;
  uint32_t float64_stages = 0;
  int threads = 0;
  int64_t repeat = 1;
  uint64_t seed = 0;
};

using analysis::OwnedSide;

// The results of repeating a replay, by gradient.
struct Repeats {
  int64_t runs = 1;
  std::array<int64_t, 3> distinct{1, 1, 1};  // number of different digests
  std::array<double, 3> spread{};            // largest |difference| of an element from the first run's
};

// Where the runs of a replay ran.
struct Whereabouts {
  std::set<std::string> devices;  // "cpu", "cuda:0"
  std::string why_moved;          // why some ran on the CPU instead of a GPU; empty if none did
};

class Replays {
 public:
  // Runs float64, the dialect of tests, and the requested modes, in parallel on several GPUs. Calls `progress` from
  // several threads. Throws Unavailable as `devices` does.
  Replays(const LoadedCall& call, const ReplaySettings& settings, Devices& devices,
          const std::function<void(const std::string&)>& progress);

  const analysis::Side& float64() const { return float64_.side; }
  // Returns original, if added; deterministic, atomic, mixed as requested; the dialect of tests.
  std::vector<analysis::Side> others() const;
  // Returns by mode the digest of each of its gradients, from the first run.
  const std::map<std::string, std::array<std::string, 3>>& digests() const { return digests_; }
  // Adds the runs of mode original.
  void add(const OriginalResult& original, const LoadedCall& call);
  const std::map<std::string, Repeats>& repeats() const { return repeats_; }
  // Returns by mode, and for the dialect of tests, where it ran.
  const std::map<std::string, Whereabouts>& whereabouts() const { return whereabouts_; }

 private:
  // One replay, run as often as requested.
  struct Plan {
    std::string name;
    std::shared_ptr<const analysis::Call> alternative;  // the call in another dialect
    msda_options options;
  };
  OwnedSide run(const LoadedCall& call, const Plan& plan, Devices& devices, GpuReplay* gpu);
  static Devices::Ran compute(const LoadedCall& call, const Plan& plan, Devices& devices, GpuReplay* gpu,
                              OwnedSide& owned);
  void repeat(const LoadedCall& call, const ReplaySettings& settings, const std::vector<Plan>& plans, Devices& devices,
              const std::function<void(const std::string&)>& progress);

  OwnedSide float64_;
  std::vector<OwnedSide> others_;
  std::optional<analysis::Side> original_;  // refers to what was added
  std::map<std::string, std::array<std::string, 3>> digests_;
  std::map<std::string, Repeats> repeats_;
  std::map<std::string, Whereabouts> whereabouts_;
  std::mutex mutex_;  // guards the runs' results
};

}  // namespace msda::replay
