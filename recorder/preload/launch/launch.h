// Records one kernel launch: what it is, and what its tensors hold before and after it. Every hook calls these
// functions.
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
  void** parameters;  // pointers to the parameters, or null if `extra` has them packed
  void** extra;
  std::span<const cuda::LaunchAttribute> attributes = {};
};

// Returns whether launches of this function are known not to be recorded, which holds for nearly all of a program's
// functions from their second launch on. One table lookup; safe on any thread.
bool passes_by(cuda::Function function) noexcept;

// What before_launch() passes to after_launch().
struct SnapshotState;
class Snapshot {
 public:
  Snapshot();
  ~Snapshot();
  std::unique_ptr<SnapshotState> state;  // null: this launch is not recorded
};

// Both use the launch's own stream; neither throws, and neither changes what the launch does. Before an autotuner
// launch (autotuner_launches.h) the recorder does nothing. Before any other launch it waits for digests of the inputs,
// which show whether they are new, unless it can copy ahead (SnapshotMode).
void before_launch(const Launched& launched, Snapshot& snapshot) noexcept;
void after_launch(const Launched& launched, Snapshot& snapshot, cuda::Result result) noexcept;

}  // namespace msda::record
