// What mode original found: the recorded machine code, launched again.
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
#include "replay/lines.h"

namespace msda::replay {

// The element of a tensor at a row-major place, as float64.
double element_of(capture::ElementType type, const std::byte* data, int64_t flat);

// An output, and what repeating the launch did to it.
struct OriginalTensor {
  std::string name;
  capture::ElementType type = capture::ElementType::kFloat32;
  std::vector<int64_t> shape;
  std::unique_ptr<std::byte[]> first;  // of the first run, row-major
  std::string digest;                  // of that, as the capture has digests
  int64_t distinct = 1;                // different results
  // How the elements vary: those that are not the same bits in all runs, and the widest ranges among them.
  struct Varying {
    int64_t flat;
    double lowest, highest;
  };
  int64_t varying = 0;
  double spread = 0;  // the largest highest - lowest
  std::vector<Varying> widest;
  // Against what was recorded; absent where that is not in the capture.
  struct Recorded {
    bool among_them = false;  // some run gave it, bit for bit
    int64_t different = 0;    // elements of the first run that are other bits
    double max_abs = 0;       // over those that are finite on both sides
  };
  std::optional<Recorded> recorded;
};

struct OriginalResult {
  std::string device, kernel_digest;
  int architecture = 0;  // of the device: 90 for sm_90
  adapters::LaunchShape shape;
  std::string changed;  // in words: what of the launch is not as it was recorded; empty: nothing
  int64_t runs = 0;
  double launch_ms = 0;       // median
  double first_result_s = 0;  // from the capture to the first run's outputs
  double runs_per_s = 0;  // of those after the first, resetting and examining the outputs included; 0: there are none
  std::vector<OriginalTensor> tensors;
};

// A dialect-less kernel's.
struct Relaunched {
  int64_t id;
  std::string kernel;
  OriginalResult original;
  std::vector<std::string> altered;  // as an InvocationResult's
};

nlohmann::ordered_json to_json(const OriginalResult& result);
// Some indented lines.
Lines to_text(const OriginalResult& result);
Lines to_text(const std::vector<Relaunched>& relaunched);

}  // namespace msda::replay
