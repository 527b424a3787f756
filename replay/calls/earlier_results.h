// What earlier calls in a capture returned: an output buffer that was not zeroed may still hold it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/model/material.h"
#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

class EarlierResults {
 public:
  explicit EarlierResults(const capture::IsolatedReader& reader) : reader_(reader) {}

  // Returns the gradients of the calls before `invocation`, the latest first; of very many the latest only. Their data
  // are read when asked for, by the reader, and kept with the result.
  std::vector<analysis::EarlierResult> before(int64_t invocation) const;

 private:
  struct Outputs {
    bool of_operator = false;  // other kernels may have outputs of any type
    std::vector<capture::TensorInfo> tensors;
  };
  const Outputs& outputs_of(int64_t id) const;

  const capture::IsolatedReader& reader_;
  mutable std::map<int64_t, Outputs> known_;  // of the latest, as the next call asks for most of them again
};

}  // namespace msda::replay
