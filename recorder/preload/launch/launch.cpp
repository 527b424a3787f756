#include "recorder/preload/launch/launch.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "recorder/preload/driver/images.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/launch/autotuner_launches.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/launch/snapshot.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

// A function's parameters, cached: asking the driver costs as much as everything else that a launch needs.
struct Layout {
  std::string kernel;
  std::vector<adapters::Parameter> parameters;
};

// A thread's caches about its launches. They are valid until code is unloaded, because handles may mean other functions
// then.
struct ThreadState {
  uint64_t unloads = 0;
  std::unordered_map<cuda::Function, Layout> layouts;
  std::unordered_map<std::string, std::shared_ptr<KnownLaunch>> known;  // by key_of()
  std::unordered_set<std::string> refused;
  const KnownLaunch* last = nullptr;  // the thread's last launch
  uint64_t waits = 0;                 // of the program for the device, before that launch
};
thread_local ThreadState* thread_state = nullptr;  // never destroyed: destructors of the program may launch

ThreadState& this_thread() {
  if (thread_state == nullptr) thread_state = new ThreadState;
  ThreadState& mine = *thread_state;
  constexpr size_t kMost = 1024;
  const bool stale = std::exchange(mine.unloads, unloads()) != unloads();
  if (stale || mine.layouts.size() > kMost) mine.layouts.clear();
  if (stale || mine.known.size() > kMost) {
    mine.known.clear();
    mine.last = nullptr;
  }
  if (stale || mine.refused.size() > kMost) mine.refused.clear();
  return mine;
}

// The launch as adapters see it; false if the driver does not tell its parameters.
bool read_launch(const Launched& launched, bool is_kernel, ThreadState& mine, adapters::Launch& launch) {
  Layout& layout = mine.layouts[launched.function];
  if (layout.kernel != launch.kernel) layout = {launch.kernel, parameters_of(launched.function, is_kernel)};
  launch.parameters = layout.parameters;
  return read_parameters(launched, launch);
}

SnapshotMode mode_of(const KnownLaunch* known, const LastContent& last, const ThreadState& mine, uint64_t waits_now) {
  const bool repeats = known != nullptr && known->inputs_stay && last.repeats &&
                       (program_measures() || (mine.last == known && mine.waits == waits_now));
  if (repeats && recording().knows_content(last.key)) return SnapshotMode::kAutotuner;
  return config().digest_only ? SnapshotMode::kDigest : SnapshotMode::kCopy;
}

// For a program that runs ahead of the device, waiting costs more than a copy that turns out to be unnecessary. The
// copy is probably necessary unless the launch before had the same parameters, or the last launch with these parameters
// had known contents. It is possible if no input on the device decides how the others are read.
bool can_copy_ahead(const KnownLaunch& known, const LastContent& last, const KnownLaunch* launch_before) {
  return !last.repeats && launch_before != &known && known.tables.empty();
}

bool begin(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state) {
  switch (state.mode) {
    case SnapshotMode::kCopy:
      return begin_copy(launched, adapter, state);
    case SnapshotMode::kCopyAhead:
      return begin_copy_ahead(launched, state);
    case SnapshotMode::kDigest:
      return begin_digest(launched, adapter, state);
    case SnapshotMode::kAutotuner:
      return true;
  }
  return false;
}

void snapshot_before(const Launched& launched, Snapshot& snapshot) {
  adapters::Launch launch;
  auto state = std::make_unique<SnapshotState>();
  const adapters::Adapter* adapter =
      Functions::instance().adapter_of(launched.function, launch.kernel, state->is_kernel);
  if (adapter == nullptr || recording().is_over()) return;
  const auto refuse = [&](const char* reason) { Functions::instance().refuse(launch.kernel, reason); };
  int capturing = 0;
  if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
    return refuse("its stream is being captured into a CUDA graph");
  }
  ThreadState& mine = this_thread();
  if (!read_launch(launched, state->is_kernel, mine, launch)) return refuse("the driver does not tell its parameters");
  const std::string key = key_of(launched, launch);
  if (mine.refused.contains(key)) return;
  const uint64_t waits_now = waits_of_program();
  auto& known = mine.known[key];
  const bool tables_vary = known && known->is_stale();
  if (tables_vary) known.reset();
  if (known) state->last = known->last();
  state->mode = mode_of(known.get(), state->last, mine, waits_now);
  mine.waits = waits_now;
  const KnownLaunch* launch_before = std::exchange(mine.last, nullptr);
  before_another(state->mode == SnapshotMode::kAutotuner ? known.get() : nullptr, state->last);
  if (!known) {
    const DecodedLaunch decoded = decode(launched, *adapter, state->is_kernel, std::move(launch));
    known = decoded.known;
    if (!known && decoded.always) mine.refused.insert(key);
    if (!known) return;
    known->tables_vary = tables_vary;
  }
  state->known = known;
  state->stream = launched.stream;
  if (state->mode == SnapshotMode::kCopy && can_copy_ahead(*known, state->last, launch_before)) {
    state->mode = SnapshotMode::kCopyAhead;
  }
  if (!begin(launched, *adapter, *state)) return;
  known = state->known;
  mine.last = known.get();
  snapshot.state = std::move(state);
}

void snapshot_after(const Launched& launched, SnapshotState& state) {
  switch (state.mode) {
    case SnapshotMode::kCopy:
      return end_registered(launched, state);
    case SnapshotMode::kAutotuner:
      return end_autotuner_launch(launched.stream, state.known, state.last);
    case SnapshotMode::kCopyAhead:
    case SnapshotMode::kDigest:
      return end_unregistered(launched, state);
  }
}

}  // namespace

Snapshot::Snapshot() = default;
Snapshot::~Snapshot() = default;

bool passes_by(cuda::Function function) noexcept {
  try {
    return inside || Functions::instance().is_unmatched(function);
  } catch (...) {  // no memory for the table
    return true;
  }
}

void before_launch(const Launched& launched, Snapshot& snapshot) noexcept {
  by_itself([&] { snapshot_before(launched, snapshot); });
}

void after_launch(const Launched& launched, Snapshot& snapshot, cuda::Result result) noexcept {
  if (!snapshot.state) return;
  by_itself([&] {
    const std::unique_ptr<SnapshotState> state = std::move(snapshot.state);
    if (result == cuda::kSuccess) snapshot_after(launched, *state);
  });
}

}  // namespace msda::record
