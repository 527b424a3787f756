#include "recorder/preload/launch/launch.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "recorder/preload/session/config.h"
#include "recorder/preload/session/courier.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/known_launch.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/ring.h"
#include "recorder/preload/launch/trials.h"

namespace msda::record {
namespace {

// Asking the driver for it costs as much as all else that a launch needs.
struct Layout {
  std::string kernel;
  uint64_t unloads = 0;  // of code until then: a handle may be another function's since
  std::vector<adapters::Parameter> parameters;
};

struct OfThread {
  std::unordered_map<cuda::Function, Layout> layouts;
  std::unordered_map<std::string, std::shared_ptr<Known>> known;  // by what makes launches the same
  std::unordered_set<std::string> refused;
  const Known* last = nullptr;  // launched
  uint64_t waits = 0;           // before it
};
thread_local OfThread* of_thread = nullptr;  // never destroyed: destructors of the host's may launch

}  // namespace

struct SnapshotState {
  // What is done: tensors are copied; of a trial (launch.h) and with --digest-only digests are asked for alone.
  enum Way { kCopy, kTrial, kDigest } way = kCopy;
  bool is_kernel = false;  // what was launched is a CUkernel
  std::shared_ptr<Known> known;
  LastContent last;     // of a trial: what it is taken for
  Digests before;       // with kDigest: of inputs, and of outputs before
  LaunchRecord record;  // otherwise
  std::byte* outputs_memory = nullptr;
  uint64_t outputs_offset = 0;
  std::vector<bool> zeros;  // of the outputs before: they need not be copied
};

Snapshot::Snapshot() = default;
Snapshot::~Snapshot() = default;

namespace {

constexpr uint64_t rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

uint64_t staged_bytes(const Tensors& tensors) {
  uint64_t total = 0;
  for (const auto& tensor : tensors) total += rounded(static_cast<uint64_t>(tensor.bytes()));
  return total;
}

// Asks for the tensors, one after the other from `memory` on, but for those that are zero all over. False if they
// cannot be copied.
bool fetch(const Tensors& tensors, cuda::Stream stream, std::byte*& memory, uint64_t& offset,
           std::vector<HostTensor>& host, const std::vector<bool>& zeros = {}) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    if (i < zeros.size() && zeros[i]) {
      host.push_back({tensor.name, tensor.dtype.name, tensor.shape, {}, {}, {}, true});
      continue;
    }
    const auto size = static_cast<size_t>(tensor.bytes());
    if (size > 0 && cuda::driver().copy_to_host(memory, tensor.address, size, stream) != cuda::kSuccess) return false;
    host.push_back({tensor.name, tensor.dtype.name, tensor.shape, {memory, size}, tensor.strides, offset});
    memory += rounded(size);
    offset += rounded(size);
  }
  return true;
}

OfThread& this_thread() {
  if (of_thread == nullptr) of_thread = new OfThread;
  constexpr size_t kMost = 1024;
  if (of_thread->layouts.size() > kMost) of_thread->layouts.clear();
  if (of_thread->known.size() > kMost) of_thread->known.clear();
  if (of_thread->refused.size() > kMost) of_thread->refused.clear();
  return *of_thread;
}

// The tensors' types, shapes and digests, by section and name.
void add_digests(const char* section, const Tensors& tensors, const Digests& digests, size_t first,
                 LaunchRecord& record) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    record.digests[std::string(section) + "/" + tensors[i].name] =
        digest_in_words(tensors[i].dtype.name, tensors[i].shape, digests[first + i]);
  }
}

// Room in the shared memory, and copies into it of what is not recorded yet.
bool copy_before(const Launched& launched, SnapshotState& state) {
  const adapters::Call& call = state.known->call;
  LaunchRecord& record = state.record;
  Ring* ring = ring_of_this_process();
  const bool inputs = !record.content.known, before = inputs || !record.content.same_before;
  const uint64_t bytes =
      (inputs ? staged_bytes(call.inputs) : 0) + (before ? staged_bytes(call.outputs) : 0) + staged_bytes(call.outputs);
  const auto block = ring != nullptr ? ring->reserve(bytes) : std::nullopt;
  if (!block) {
    Functions::instance().refuse(state.known->name,
                                 "its " + std::to_string(bytes) +
                                     " bytes find no room in the memory shared with the writer, which "
                                     "MSDA_RECORD_RING_BYTES limits");
    return false;
  }
  record.block = block->number;
  state.outputs_memory = block->memory;
  state.outputs_offset = block->offset;
  if ((inputs && !fetch(call.inputs, launched.stream, state.outputs_memory, state.outputs_offset, record.inputs)) ||
      (before && !fetch(call.outputs, launched.stream, state.outputs_memory, state.outputs_offset,
                        record.outputs_before, state.zeros))) {
    ring->give_back(block->number);
    Functions::instance().refuse(state.known->name, "its tensors cannot be copied to the host");
    return false;
  }
  return true;
}

void give_back(const SnapshotState& state, cuda::Stream stream) {
  Ring* ring = ring_of_this_process();
  if (!state.record.block || ring == nullptr) return;
  cuda::driver().synchronize(stream);  // copies into it may be under way
  ring->give_back(*state.record.block);
}

// The digests of inputs and output buffers, waited for. `known` is decoded anew if the tables that it was read by have
// changed.
Digests look(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
             std::shared_ptr<Known>& known) {
  for (int again = 0; again < 2; ++again) {
    std::string failure = "its stream does not come forward, or failed";
    Digests digests = Digester::instance().start(ranges_of(known->call), launched.stream, failure);
    if (!digests || !wait_for(digests, launched.stream)) {
      Functions::instance().refuse(known->name, failure);
      return {};
    }
    if (known->same_tables(digests)) return digests;
    known = decode(launched, adapter, is_kernel, known->launch);
    if (!known) return {};
  }
  return {};
}

// What equal results are expected of: the same code on the same content, and on the same outputs before where the
// kernel adds to them.
std::string code_on(const Known& known, const Digests& digests) {
  std::string code = known.code + " after";
  for (size_t i = 0; i < known.call.outputs.size(); ++i) {
    if (!known.call.outputs[i].written_over) code += " " + in_hex(digests[known.call.inputs.size() + i]);
  }
  return code;
}

void add_facts(const Launched& launched, SnapshotState& state) {
  LaunchRecord& record = state.record;
  record.facts = stamped(facts_of(launched, state.known->launch, state.known->call));
  if (const auto& image = state.known->image) {
    record.facts.texts["kernel_digest"] = image->digest;
    if (!has_code(image->digest)) {
      CodeFacts code = code_facts_of(launched.function, state.is_kernel);
      add_launch(launched, code);
      deliver_code(state.known->name, *image, code);
    }
  }
  add_parameters(state.known->launch, record);
}

// What the buffers hold now, which the record of a launch begins with.
void take_before(const Known& known, const Digests& digests, LaunchRecord& record) {
  add_digests("inputs", known.call.inputs, digests, 0, record);
  add_digests("outputs_before", known.call.outputs, digests, known.call.inputs.size(), record);
  record.code = code_on(known, digests);
}

// What a launch's content is, new or known; false if nothing is recorded any more. The digests are of its inputs and of
// what its outputs held before.
bool recognise(Known& known, const Digests& digests, LaunchRecord& record) {
  const std::string label = record.facts.texts["label"], key = content_key(known, label, digests);
  const auto content = enter(key, in_words(digests, known.call.inputs.size(), known.call.outputs.size()));
  if (!content) return false;
  known.set_last({label, key, content->known});
  record.content = *content;
  take_before(known, digests, record);
  return true;
}

// Computed once for a size, as the buffers that a kernel adds to mostly hold zeros before it.
Digest digest_of_zeros(uint64_t bytes) {
  static thread_local std::unordered_map<uint64_t, Digest>* known = new std::unordered_map<uint64_t, Digest>;
  constexpr size_t kMost = 4096;
  if (known->size() > kMost) known->clear();
  const auto found = known->find(bytes);
  return found != known->end() ? found->second : known->emplace(bytes, digest_on_host(nullptr, bytes)).first->second;
}

// False if the launch is not to be recorded.
bool begin_copy(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state) {
  const Digests digests = look(launched, adapter, state.is_kernel, state.known);
  if (!digests) return false;
  const Known& known = *state.known;
  add_facts(launched, state);
  if (!recognise(*state.known, digests, state.record)) return false;
  for (size_t i = 0; i < known.call.outputs.size(); ++i) {
    const auto bytes = static_cast<uint64_t>(known.call.outputs[i].bytes());
    state.zeros.push_back(digests[known.call.inputs.size() + i] == digest_of_zeros(bytes));
  }
  if (copy_before(launched, state)) return true;
  leave(state.record.content);
  return false;
}

bool begin_digest(const Launched& launched, SnapshotState& state) {
  if (!start_recording()) return false;
  std::string failure;
  state.before = Digester::instance().start(ranges_of(state.known->call), launched.stream, failure);
  if (!state.before) {
    Functions::instance().refuse(state.known->name, failure);
    return false;
  }
  return true;
}

void snapshot_before(const Launched& launched, Snapshot& snapshot) {
  adapters::Launch launch;
  bool is_kernel = false;
  const adapters::Adapter* adapter = Functions::instance().adapter_of(launched.function, launch.kernel, is_kernel);
  if (adapter == nullptr || is_over()) return;
  int capturing = 0;
  if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
    Functions::instance().refuse(launch.kernel,
                                 "its stream is being captured into a graph, whose replays run no launch of theirs");
    return;
  }
  OfThread& mine = this_thread();
  Layout& layout = mine.layouts[launched.function];
  if (layout.kernel != launch.kernel || layout.unloads != unloads()) {
    layout = {launch.kernel, unloads(), parameters_of(launched.function, is_kernel)};
  }
  launch.parameters = layout.parameters;
  if (!read_parameters(launched, launch)) {
    Functions::instance().refuse(launch.kernel, "the driver does not tell its parameters");
    return;
  }
  const std::string key = key_of(launched, launch);
  if (mine.refused.contains(key)) return;
  const uint64_t waits_now = waits_of_program();
  auto& known = mine.known[key];
  if (known && (known->is_stale() || known->unloads != unloads())) known.reset();
  auto state = std::make_unique<SnapshotState>();
  if (known) state->last = known->last();
  const bool is_trial = known && known->inputs_stay && state->last.repeats &&
                        (program_measures() || (mine.last == known.get() && mine.waits == waits_now));
  mine.waits = waits_now;
  mine.last = nullptr;
  before_another(is_trial ? known.get() : nullptr, state->last);
  if (!known) known = decode(launched, *adapter, is_kernel, std::move(launch));
  if (!known) {
    mine.refused.insert(key);
    return;
  }
  state->is_kernel = is_kernel;
  state->known = known;
  state->way = is_trial ? SnapshotState::kTrial : config().digest_only ? SnapshotState::kDigest : SnapshotState::kCopy;
  if (state->way == SnapshotState::kDigest && !begin_digest(launched, *state)) return;
  if (state->way == SnapshotState::kCopy && !begin_copy(launched, *adapter, *state)) return;
  known = state->known;
  mine.last = known.get();
  snapshot.state = std::move(state);
}

// Outputs are copied, then digested: when the digests are there, so are the copies.
void end_copy(const Launched& launched, SnapshotState& state) {
  const auto& outputs = state.known->call.outputs;
  const bool copied = fetch(outputs, launched.stream, state.outputs_memory, state.outputs_offset, state.record.outputs);
  std::string failure;
  Digests digests = copied ? Digester::instance().start(ranges_of(outputs), launched.stream, failure) : Digests();
  if (!digests) {
    leave(state.record.content);
    give_back(state, launched.stream);
    Functions::instance().refuse(state.known->name, "its outputs cannot be copied to the host");
    return;
  }
  const auto record = std::make_shared<LaunchRecord>(std::move(state.record));
  const auto delivered = [known = state.known, record](const Digests& ready) {
    add_digests("outputs", known->call.outputs, ready, 0, *record);
    record->outputs_digest = in_words(ready, 0, known->call.outputs.size());
    deliver(std::move(*record));
  };
  if (!Courier::instance().when_ready(std::move(digests), delivered)) missed(state.known->name);
}

// With --digest-only everything but the digests themselves is done here, while the device is at work.
void end_digest(const Launched& launched, SnapshotState& state) {
  struct Pair {
    Digests before;
    LaunchRecord record;
  };
  std::string failure;
  Digests digests = Digester::instance().start(ranges_of(state.known->call.outputs), launched.stream, failure);
  if (digests) add_facts(launched, state);
  const auto pair = std::make_shared<Pair>();
  pair->before = std::move(state.before);
  pair->record = std::move(state.record);
  const auto delivered = [known = state.known, pair](const Digests& ready) {
    auto& [before, record] = *pair;
    if (!known->same_tables(before)) {
      known->set_stale();
      missed(known->name);
      return;
    }
    if (!recognise(*known, before, record)) return;
    add_digests("outputs", known->call.outputs, ready, 0, record);
    record.outputs_digest = in_words(ready, 0, known->call.outputs.size());
    deliver(std::move(record));
  };
  if (!digests || !Courier::instance().when_ready(std::move(digests), delivered)) missed(state.known->name);
}

}  // namespace

bool passes_by(cuda::Function function) noexcept {
  try {
    return inside || Functions::instance().is_stranger(function);
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
    SnapshotState& state = *snapshot.state;
    if (state.way == SnapshotState::kCopy && result != cuda::kSuccess) {
      leave(state.record.content);
      give_back(state, launched.stream);
    } else if (result == cuda::kSuccess && state.way == SnapshotState::kTrial) {
      end_trial(launched.stream, state.known, state.last);
    } else if (result == cuda::kSuccess && state.way == SnapshotState::kCopy) {
      end_copy(launched, state);
    } else if (result == cuda::kSuccess) {
      end_digest(launched, state);
    }
  });
}

}  // namespace msda::record
