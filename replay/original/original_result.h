// The result of mode original.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/capture/capture.h"
#include "replay/base/lines.h"
#include "replay/original/poison_result.h"

namespace msda::replay {

// An output, and how it varied over repeated launches.
struct OriginalTensor : tensors::Description {
  std::unique_ptr<std::byte[]> first;  // of the first run, row-major
  std::string digest;                  // of the first run, in the form of the capture's digests
  int64_t distinct = 1;                // number of different results
  // The elements whose bits differ between runs, and the widest ranges among them.
  struct Varying {
    int64_t flat;
    double lowest, highest;
  };
  int64_t varying = 0;
  double spread = 0;  // the largest highest - lowest
  std::vector<Varying> widest;
  // Compared with the recorded output; absent if the capture does not have it.
  struct Recorded {
    bool among_them = false;  // some run gave the recorded bits
    int64_t different = 0;    // elements of the first run with other bits
    double max_abs = 0;       // over those that are finite on both sides
  };
  std::optional<Recorded> recorded;
};

struct OriginalResult {
  std::string device, kernel_digest;
  int architecture = 0;  // of the device: 90 for sm_90
  adapters::LaunchShape shape;
  std::string changed;  // how the launch differs from the recorded one, as text; empty: not at all
  int64_t runs = 0;
  double launch_ms = 0;       // median
  double first_result_s = 0;  // from the capture to the first run's outputs
  double runs_per_s =
      0;  // of the runs after the first, including resetting and examining the outputs; 0: there was only one
  std::vector<OriginalTensor> tensors;
};

// The result for a kernel without a dialect.
struct Relaunched {
  int64_t id;
  std::string kernel;
  OriginalResult original;
  std::optional<PoisonResult> poison;
  std::vector<std::string> altered;  // as an InvocationResult's
};

nlohmann::ordered_json to_json(const OriginalResult& result);
// Returns some indented lines.
Lines to_text(const OriginalResult& result);
Lines to_text(const std::vector<Relaunched>& relaunched);

}  // namespace msda::replay
