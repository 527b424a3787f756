// A recorded launch of which only the machine code is known, made smaller: fewer blocks, and zeros in place of memory,
// as long as launches of it give different results.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

struct SmallLaunch {
  struct Memory {
    const capture::TensorInfo* info;  // of the recorded launch
    bool is_output = false;           // then what it held before the launch
    std::vector<std::byte> bytes;
  };
  std::array<int64_t, 3> grid{};
  std::vector<Memory> memory;

  int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
  int64_t bytes() const;
  int64_t zeros() const;  // bytes that are 0
};

// What is written with each smaller launch. Read before the search: Ctrl-C may end the process that reads the capture.
struct RecordedLaunch {
  RecordedLaunch(std::string capture, const capture::IsolatedReader& reader, int64_t id);

  std::string from;  // the capture
  capture::Run run;
  capture::Invocation invocation;
  std::optional<capture::KernelImage> code;
  SmallLaunch whole;  // refers to the invocation
};

struct LaunchSearch {
  // Returns whether launches of it give different results; `step` says what is being tried. Called at most
  // `most_trials` times.
  std::function<bool(const SmallLaunch&, const std::string& step)> varies;
  std::function<bool()> is_stopped;
  int64_t most_trials = 0;

  int64_t trials = 0;
  // Leaves the smallest launch that was found to vary. False if it was stopped, or there were no trials left.
  bool make_smaller(SmallLaunch& launch);

 private:
  bool may_try() const { return trials < most_trials && !is_stopped(); }
  bool try_it(const SmallLaunch& launch, const std::string& step);
  void shrink_grid(SmallLaunch& launch);
  void zero_memory(SmallLaunch& launch);
};

// `packed`: compressed, as zeros can be. `verdict`: what was found, or nothing. What the launch left is not in it: it
// is another launch. Throws capture::Error.
void write_small_launch(const std::string& path, bool replace, bool packed, const RecordedLaunch& recorded,
                        const SmallLaunch& launch, const std::string& verdict);

}  // namespace msda::replay
