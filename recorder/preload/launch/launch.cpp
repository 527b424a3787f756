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

// A kernel to record. Asking the driver for it costs as much as everything else that a launch needs.
struct Kernel {
  const adapters::Adapter* adapter = nullptr;
  bool is_kernel = false;
  Layout layout;
  // The last launch, which most launches repeat: an entry of ThreadState::known.
  std::string last_key;
  std::shared_ptr<KnownLaunch>* last = nullptr;
};

// A thread's caches about its launches. They are valid until code is unloaded, because handles may mean other functions
// then.
struct ThreadState {
  uint64_t unloads = 0;
  std::unordered_map<cuda::Function, Kernel> kernels;
  std::unordered_map<std::string, std::shared_ptr<KnownLaunch>> known;  // by identify()
  std::unordered_set<std::string> refused;
  std::string key;                    // of this launch
  const KnownLaunch* last = nullptr;  // the thread's last launch
  uint64_t waits = 0;                 // of the program for the device, before that launch
};
thread_local ThreadState* thread_state = nullptr;  // never destroyed: destructors of the program may launch

[[gnu::hot]] ThreadState& this_thread() {
  if (thread_state == nullptr) thread_state = new ThreadState;
  ThreadState& mine = *thread_state;
  constexpr size_t kMost = 1024;
  const bool stale = std::exchange(mine.unloads, unloads()) != unloads();
  if (stale || mine.kernels.size() > kMost || mine.known.size() > kMost) {
    mine.kernels.clear();
    mine.known.clear();
    mine.last = nullptr;
  }
  if (stale || mine.refused.size() > kMost) mine.refused.clear();
  return mine;
}

// Returns null for a function that is not recorded.
[[gnu::hot]] Kernel* kernel_of(cuda::Function function, ThreadState& mine) {
  const auto found = mine.kernels.find(function);
  if (found != mine.kernels.end()) return &found->second;
  Kernel kernel;
  kernel.adapter = Functions::instance().adapter_of(function, kernel.layout.kernel, kernel.is_kernel);
  if (kernel.adapter == nullptr) return nullptr;
  kernel.layout.parameters = parameters_of(function, kernel.is_kernel);
  return &mine.kernels.emplace(function, std::move(kernel)).first->second;
}

// Returns the place for what is known of the launch with mine.key.
[[gnu::hot]] std::shared_ptr<KnownLaunch>& known_of(Kernel& kernel, ThreadState& mine) {
  if (kernel.last == nullptr || kernel.last_key != mine.key) {
    auto& known = mine.known[mine.key];
    kernel.last = nullptr;  // for want of memory the next line may fail
    kernel.last_key = mine.key;
    kernel.last = &known;
  }
  return *kernel.last;
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

bool digests_need_no_wait(SnapshotMode mode, const KnownLaunch& known) {
  return mode == SnapshotMode::kCopyAhead ||
         (mode == SnapshotMode::kDigest && !known.call.reads_data && !known.tables_vary);
}

bool begin(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state) {
  switch (state.mode) {
    case SnapshotMode::kCopy:
      return begin_copy(launched, adapter, state);
    case SnapshotMode::kCopyAhead:
      return begin_copy_ahead(state);
    case SnapshotMode::kDigest:
      return begin_digest(launched, adapter, state);
    case SnapshotMode::kAutotuner:
      return true;
  }
  return false;
}

// Decodes a launch that is not known yet, or whose tables have changed. Returns false if it cannot be recorded.
bool decode(const Launched& launched, const Kernel& kernel, ThreadState& mine, std::shared_ptr<KnownLaunch>& known) {
  const bool tables_vary = known != nullptr;
  known.reset();
  const DecodedLaunch decoded = decode(launched, *kernel.adapter, kernel.is_kernel, launch_of(launched, kernel.layout));
  if (!decoded.known && decoded.always) mine.refused.insert(mine.key);
  known = decoded.known;
  if (known) known->tables_vary = tables_vary;
  return known != nullptr;
}

// Sets mine.key. Returns false if the launch cannot be recorded.
bool identify(const Launched& launched, const Kernel& kernel, ThreadState& mine) {
  const std::string& name = kernel.layout.kernel;
  int capturing = 0;
  if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
    Functions::instance().refuse(name, "its stream is being captured into a CUDA graph");
    return false;
  }
  if (!identify(launched, kernel.layout, mine.key)) {
    Functions::instance().refuse(name, "the driver does not report its parameters");
    return false;
  }
  return mine.refused.empty() || !mine.refused.contains(mine.key);
}

[[gnu::hot]] void snapshot_before(const Launched& launched, Snapshot& snapshot) {
  ThreadState& mine = this_thread();
  Kernel* kernel = kernel_of(launched.function, mine);
  if (kernel == nullptr) return;
  Recording& session = recording();
  if (session.is_over() || !identify(launched, *kernel, mine)) return;
  const uint64_t waits_now = waits_of_program();
  auto& known = known_of(*kernel, mine);
  const bool is_known = known && !known->is_stale();
  const LastContent none;
  std::shared_ptr<const LastContent> repeated;  // null unless the last launch repeated recorded content
  if (is_known && known->repeats()) repeated = known->last();
  const LastContent& last = repeated ? *repeated : none;
  SnapshotMode mode = mode_of(is_known ? known.get() : nullptr, last, mine, waits_now);
  mine.waits = waits_now;
  const KnownLaunch* launch_before = std::exchange(mine.last, nullptr);
  before_another(mode == SnapshotMode::kAutotuner ? known.get() : nullptr, last);
  if (!is_known && !decode(launched, *kernel, mine, known)) return;
  if (mode == SnapshotMode::kCopy && can_copy_ahead(*known, last, launch_before)) mode = SnapshotMode::kCopyAhead;
  const bool starts = mode == SnapshotMode::kCopyAhead || mode == SnapshotMode::kDigest;
  if (starts && !session.start()) return;
  Digests digests;  // first of all that the device and the host can do at the same time
  if (digests_need_no_wait(mode, *known)) {
    digests = begin_digests(launched, *known);
    if (!digests) return;
  }
  auto state = std::make_unique<SnapshotState>();
  state->mode = mode;
  state->is_kernel = kernel->is_kernel;
  state->known = known;
  state->last = std::move(repeated);
  state->digests = std::move(digests);
  state->stream = launched.stream;
  if (!begin(launched, *kernel->adapter, *state)) return;
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

[[gnu::hot]] bool passes_by(cuda::Function function) noexcept {
  try {
    return inside || Functions::instance().is_unmatched(function);
  } catch (...) {  // no memory for the table
    return true;
  }
}

[[gnu::hot]] void before_launch(const Launched& launched, Snapshot& snapshot) noexcept {
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
