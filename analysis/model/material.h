// What is known of one recorded call, before it is analyzed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/side.h"

namespace msda::analysis {

// A gradient that an earlier call returned.
struct EarlierResult {
  int64_t invocation = 0;
  std::string tensor;            // "grad_value"
  std::string digest;            // of its bytes
  std::function<Tensor()> read;  // without data if it cannot be had; good as long as a copy of this is
};

// The sides of one call. Tensors that a side lacks are not compared.
struct Material {
  std::shared_ptr<const Call> call;
  Side recorded;
  Tensor before[kMostGradients];               // the output buffers as the kernel found them, by Gradient
  std::string before_digests[kMostGradients];  // of their bytes
  // Gives what earlier calls returned, the latest first; called only if some elements may be due to that. May be empty.
  std::function<std::vector<EarlierResult>()> earlier;
  std::optional<Side> reference;  // what the test compared with
  Side float64;                   // the captured bits in float64 arithmetic, under the recorded conventions
  std::string kernel;             // that ran, or empty
  std::vector<Side> replays;      // "deterministic", "atomic", ...
};

}  // namespace msda::analysis
