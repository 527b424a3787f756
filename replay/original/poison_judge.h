// Judges the outputs of launches in the settings of --poison: what depends on memory that nobody wrote, what on a race,
// and what only on the order of atomic additions. No CUDA here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "replay/original/kept_results.h"
#include "replay/original/poison_result.h"
#include "replay/original/repeated_launch.h"

namespace msda::replay {

// Whether the kernel's code has atomics, as far as the recorder counted them. Atomics of integers, too, may decide in
// which order sums are made: they hand out work, or show a block that it is the last.
struct AtomicsOfCode {
  enum { kUnknown, kNone, kSome } any = kUnknown;
  bool shared = false;  // atomics in shared memory, whose sums may be written by ordinary stores
};
AtomicsOfCode atomics_of(const capture::KernelImage& code);

// An output, as the capture has it.
struct PoisonedOutput : tensors::Description {
  std::vector<std::byte> before;  // row-major
  size_t buffer = 0;              // its number in the plan
  std::vector<UnwrittenBytes> unwritten = {};
};

// Finds the orders of additions that give an output of a launch as it was recorded; nothing if they cannot be known.
using FindOrders = std::function<std::optional<PoisonOrders>(const PoisonedOutput&, const std::vector<std::byte>&)>;

class PoisonJudge {
 public:
  // Keeps a reference to the settings, of which the first is as recorded, and the ranges in `kept`: at most two of each
  // output in each setting.
  PoisonJudge(const std::vector<PoisonSetting>& settings, std::vector<PoisonedOutput> outputs, KeptResults kept);

  // The ranges of all outputs in a setting. A setting that failed has none; the first must have them.
  void add(size_t setting, std::vector<RepeatedLaunch::Range> ranges);
  std::vector<PoisonTensor> judge(AtomicsOfCode atomics, const FindOrders& orders) const;

 private:
  struct Range {
    int64_t distinct = 0;
    std::span<const std::byte> lowest, highest;
  };
  class OfTensor;
  void take_out_unwritten(const PoisonSetting& setting, size_t output, RepeatedLaunch::Range& range) const;

  const std::vector<PoisonSetting>& settings_;
  std::vector<PoisonedOutput> outputs_;
  KeptResults kept_;
  std::vector<std::vector<std::byte>> first_;  // by output: of the first launch as recorded
  std::vector<std::vector<Range>> ranges_;  // by setting and output; without bytes where they are the first setting's
};

}  // namespace msda::replay
