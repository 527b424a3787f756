// A kernel launch on its way: what it is, what its tensors hold before it and after it. One handler for every hook.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "recorder/preload/driver_api.h"

namespace msda::record {

struct Launched {
  cuda::Function function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  cuda::Stream stream;
  void** parameters;  // pointers to the parameters, or null where `extra` has them packed
  void** extra;
};

// Whether a launch of this function may be one to record. For all but a few functions in a program this is one look
// into a table; safe on any thread.
bool is_ours(cuda::Function function) noexcept;

// What before_launch() found out, for after_launch().
struct SnapshotState;
class Snapshot {
 public:
  Snapshot();
  ~Snapshot();
  std::unique_ptr<SnapshotState> state;  // null: nothing is recorded of this launch
};

// On the launch's own stream, which they wait for. Neither throws, and neither changes what the launch does.
void before_launch(const Launched& launched, Snapshot& snapshot) noexcept;
void after_launch(const Launched& launched, Snapshot& snapshot, cuda::Result result) noexcept;

}  // namespace msda::record
