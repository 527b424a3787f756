// The snapshot of one launch: its mode and what has been copied so far. Internal to launch.cpp and snapshot.cpp.
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
  bool is_kernel = false;  // the launched function is a CUkernel
  std::shared_ptr<KnownLaunch> known;
  std::shared_ptr<const LastContent> last;  // for an autotuner launch: the content that it is taken to repeat
  Digests digests;  // with kDigest and kCopyAhead: of the inputs, the output buffers before, and the outputs
  LaunchRecord record;
  cuda::Stream stream = nullptr;
  bool copies = false;   // copies into the record's block are under way on the stream
  bool gathers = false;  // the block has space for strided tensors without their gaps
  std::byte* outputs_memory = nullptr;
  uint64_t outputs_offset = 0;
};

// Called before a launch, by mode. Return false if it is not to be recorded. begin_digests() has set state.digests for
// begin_copy_ahead() and, if that need not wait, for begin_digest().
Digests begin_digests(const Launched& launched, const KnownLaunch& known);
bool begin_copy(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state);
bool begin_copy_ahead(SnapshotState& state);
bool begin_digest(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state);
// Called after the launch: the first if its content is registered already, the second if it is not.
void end_registered(const Launched& launched, SnapshotState& state);
void end_unregistered(const Launched& launched, SnapshotState& state);

}  // namespace msda::record
