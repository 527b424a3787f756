// What differs between two captures, or two invocations, in the order of execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// One thing that differs.
struct Difference {
  std::optional<std::pair<int64_t, int64_t>> invocations;  // empty: it belongs to the runs
  std::string section;                                     // "environment", "inputs", ...
  std::string name;                                        // "CUDA_LAUNCH_BLOCKING", "value"
  std::string a, b;                                        // empty: it is not there
  // How the elements of a tensor differ whose types and shapes agree.
  struct Elements {
    int64_t different = 0, total = 0;
    std::vector<int64_t> first;
    std::optional<double> max_abs;  // among floating-point elements that are finite on both sides
    std::optional<uint64_t> max_ulp;
  };
  std::optional<Elements> elements = {};
  bool may_decide = false;  // for a note: later numbers, or other programs', may depend on it
  // A's invocation, if the difference belongs to one; "": not recorded.
  std::string kernel = {}, label = {}, source_line = {};
};

struct Differences {
  std::vector<Difference> found;                    // numbers; the first divergence first
  std::vector<Difference> notes;                    // what else differs, in the order of execution
  int64_t invocations = 0, tensors = 0, facts = 0;  // pairs compared
  std::vector<int64_t> only_a, only_b;              // invocations without a partner
  std::string left_out;                             // calls that A's recording saw and did not keep, with reasons
  bool are_none() const;                            // whether all numbers are the same, whatever else differs
};

// A capture and its invocations to compare: those that the flag names, or all.
struct Operand {
  const capture::IsolatedReader& reader;
  std::vector<int64_t> ids;
};

// Compares the runs, then pairs of invocations (replay/diff/pairs.h). Reads tensors only where their digests differ or
// are missing, or where the other side has only the recorder's own digest. Does not compare times, processes, threads
// and counts of duplicates.
Differences find_differences(const Operand& a, const Operand& b);

}  // namespace msda::replay
