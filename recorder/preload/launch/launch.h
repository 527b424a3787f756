// A kernel launch on its way: what it is, what its tensors hold before it and after it. One handler for every hook.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

struct Launched {
  cuda::Function function;
  std::array<uint32_t, 3> grid, block;
  unsigned shared_bytes;
  cuda::Stream stream;
  void** parameters;  // pointers to the parameters, or null where `extra` has them packed
  void** extra;
  std::span<const cuda::LaunchAttribute> attributes = {};
};

// Whether a launch of this function is known to be none to record: one look into a table, as for all but a few
// functions of a program from their second launch on. Safe on any thread.
bool passes_by(cuda::Function function) noexcept;

// What before_launch() found out, for after_launch().
struct SnapshotState;
class Snapshot {
 public:
  Snapshot();
  ~Snapshot();
  std::unique_ptr<SnapshotState> state;  // null: nothing is recorded of this launch
};

// Both work on the launch's own stream; neither throws, and neither changes what the launch does. Before an autotuner
// launch (autotuner_launches.h) nothing is done. Before another one, the recorder waits for digests of its inputs, to
// tell whether they are new, unless it can copy ahead (SnapshotMode).
void before_launch(const Launched& launched, Snapshot& snapshot) noexcept;
void after_launch(const Launched& launched, Snapshot& snapshot, cuda::Result result) noexcept;

}  // namespace msda::record
