// What is taken of one launch: how, and what there is of it so far. The inside of launch.cpp and snapshot.cpp.
#pragma once

#include <memory>
#include <vector>

#include "recorder/preload/launch/known_launch.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/call_record.h"

namespace msda::record {

enum class SnapshotMode {
  kCopy,       // waits for digests of the inputs, then copies what is not recorded yet
  kCopyAhead,  // copies all tensors without a wait; the digests decide later what is recorded
  kAutotuner,  // an autotuner launch (autotuner_launches.h): only digests are computed, after it
  kDigest      // --digest-only
};

struct SnapshotState {
  SnapshotState() = default;
  SnapshotState(const SnapshotState&) = delete;
  SnapshotState& operator=(const SnapshotState&) = delete;
  ~SnapshotState();

  SnapshotMode mode = SnapshotMode::kCopy;
  bool is_kernel = false;  // what was launched is a CUkernel
  std::shared_ptr<KnownLaunch> known;
  LastContent last;  // of an autotuner launch: what it is taken for
  Digests before;    // with kDigest and kCopyAhead: of inputs, and of outputs before
  LaunchRecord record;
  cuda::Stream stream = nullptr;
  bool copies = false;   // into the record's block are under way on it
  bool gathers = false;  // the block has room for strided tensors without their gaps
  std::byte* outputs_memory = nullptr;
  uint64_t outputs_offset = 0;
};

// Before a launch, by mode. False if it is not to be recorded.
bool begin_copy(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state);
bool begin_copy_ahead(const Launched& launched, SnapshotState& state);
bool begin_digest(const Launched& launched, SnapshotState& state);
// After it: where its content is registered, and where it is yet to be.
void end_registered(const Launched& launched, SnapshotState& state);
void end_unregistered(const Launched& launched, SnapshotState& state);

}  // namespace msda::record
