#include "recorder/preload/launch/snapshot.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "recorder/preload/driver/gatherer.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/target_ring.h"

namespace msda::record {
namespace {

constexpr uint64_t rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

// Returns the bytes that a tensor takes: with the gaps between its elements, or without.
uint64_t staged_bytes(const adapters::DeviceTensor& tensor, bool gathers) {
  const int64_t with_gaps = tensor.bytes();
  if (!gathers || tensor.strides.empty()) return static_cast<uint64_t>(with_gaps);
  const auto extent = extent_of(tensor);
  return static_cast<uint64_t>(extent ? std::min(with_gaps, extent->dense) : with_gaps);
}

uint64_t staged_bytes(const Tensors& tensors, bool gathers) {
  uint64_t total = 0;
  for (const auto& tensor : tensors) total += rounded(staged_bytes(tensor, gathers));
  return total;
}

// `bytes` is what staged_bytes() returns.
bool copy_tensor(const adapters::DeviceTensor& tensor, uint64_t bytes, std::byte* to, cuda::Stream stream) {
  if (bytes < static_cast<uint64_t>(tensor.bytes())) {
    const auto copy = tensors::row_major_copy(tensor.shape, tensor.strides, kernels::bytes_of(tensor.type));
    return Gatherer::instance().start(copy, tensor.address, to, stream);
  }
  return bytes == 0 || cuda::driver().copy_to_host(to, tensor.address, bytes, stream) == cuda::kSuccess;
}

HostTensor zeros_like(const adapters::DeviceTensor& tensor) {
  return {{tensor.name, tensor.type, tensor.shape, {}}, {}, {}, true};
}

// Copies the tensors one after the other, from outputs_memory on, except those that hold only zeros. Returns false if
// they cannot be copied.
bool fetch(const Tensors& tensors, SnapshotState& state, std::vector<HostTensor>& host,
           const std::vector<bool>& zeros = {}) {
  state.copies = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    if (i < zeros.size() && zeros[i]) {
      host.push_back(zeros_like(tensor));
      continue;
    }
    std::byte*& memory = state.outputs_memory;
    const uint64_t bytes = staged_bytes(tensor, state.gathers);
    if (!copy_tensor(tensor, bytes, memory, state.stream)) return false;
    host.push_back({tensor, {memory, bytes}, state.outputs_offset});
    memory += rounded(bytes);
    state.outputs_offset += rounded(bytes);
  }
  return true;
}

// Adds the tensors' types, shapes and digests, by section and name.
void add_digests(const char* section, const Tensors& tensors, const Digests& digests, size_t first,
                 LaunchRecord& record) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    record.digests[std::string(section) + "/" + tensors[i].name] =
        describe_digest(kernels::name_of(tensors[i].type), tensors[i].shape, digests[first + i]);
  }
}

// What is copied before a launch.
struct Wanted {
  bool inputs = true, before = true;
  std::vector<bool> zeros;  // which output buffers hold only zeros before, and need no copy
};

// Reserves space in the shared memory. Returns false if there is none.
bool reserve(SnapshotState& state, const Wanted& wanted) {
  const adapters::Call& call = state.known->call;
  const uint64_t outputs = staged_bytes(call.outputs, state.gathers);
  const uint64_t bytes =
      (wanted.inputs ? staged_bytes(call.inputs, state.gathers) : 0) + (wanted.before ? outputs : 0) + outputs;
  TargetRing* ring = recording().ring();
  std::string why = "no memory can be shared with the writer";
  auto block = ring != nullptr ? ring->reserve(bytes, why) : std::nullopt;
  if (!block) {
    Functions::instance().refuse(state.known->name, why);
    return false;
  }
  state.record.block = *std::move(block);
  state.outputs_memory = state.record.block.memory();
  state.outputs_offset = state.record.block.offset();
  return true;
}

bool fetch_before(SnapshotState& state, const Wanted& wanted) {
  const adapters::Call& call = state.known->call;
  LaunchRecord& record = state.record;
  record.inputs.clear();
  record.outputs_before.clear();
  return (!wanted.inputs || fetch(call.inputs, state, record.inputs)) &&
         (!wanted.before || fetch(call.outputs, state, record.outputs_before, wanted.zeros));
}

// Copies the inputs and what the output buffers hold. If strided tensors cannot be copied without their gaps,
// everything is copied anew with gaps.
bool copy_before(SnapshotState& state, const Wanted& wanted) {
  state.gathers = Gatherer::instance().works();
  if (!reserve(state, wanted)) return false;
  bool copied = fetch_before(state, wanted);
  if (!copied && state.gathers && cuda::driver().synchronize(state.stream) == cuda::kSuccess) {
    state.gathers = false;
    state.record.block.give_back();
    if (!reserve(state, wanted)) return false;
    copied = fetch_before(state, wanted);
  }
  if (!copied) Functions::instance().refuse(state.known->name, "its tensors cannot be copied to the host");
  return copied;
}

// Waits for the digests of inputs and output buffers. Decodes `known` anew if the tables by which it was decoded have
// changed.
Digests digest_before(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
                      std::shared_ptr<KnownLaunch>& known) {
  for (int again = 0; again < 2; ++again) {
    std::string failure = kStreamStalls;
    Digests digests = Digester::instance().start(known->ranges, launched.stream, failure);
    if (!digests || !wait_for(digests, launched.stream)) {
      Functions::instance().refuse(known->name, failure);
      return {};
    }
    if (known->same_tables(digests)) return digests;
    known = decode(launched, adapter, is_kernel, known->launch).known;
    if (!known) return {};
    known->tables_vary = true;
  }
  return {};
}

// Returns what identifies launches that should give equal results: the same code on the same content and, if the kernel
// adds to its outputs, on the same output buffers.
std::string code_on(const KnownLaunch& known, const Digests& digests) {
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
    if (!recording().has_code(image->digest, state.known->name)) {
      CodeFacts code = code_facts_of(launched.function, state.is_kernel);
      add_launch(launched, code);
      recording().deliver_code({image->digest, state.known->name, code.architecture, code.integers}, image->bytes);
    }
  }
  add_parameters(state.known->launch, record);
}

// Registers a launch's content, new or known. Returns false if recording is over. The digests are those of its inputs
// and of what its outputs held before.
bool recognise(KnownLaunch& known, const Digests& digests, LaunchRecord& record) {
  const size_t inputs = known.call.inputs.size();
  const std::string label = record.facts.texts["label"], key = content_key(known, label, digests);
  record.before = joined_digests(digests, inputs, known.call.outputs.size());
  auto content = recording().register_content(key, record.before);
  if (!content) return false;
  record.content = *std::move(content);
  known.set_last({label, key, record.content.known});
  add_digests("inputs", known.call.inputs, digests, 0, record);
  add_digests("outputs_before", known.call.outputs, digests, inputs, record);
  record.code = code_on(known, digests);
  return true;
}

void add_outputs(const KnownLaunch& known, const Digests& digests, size_t first, LaunchRecord& record) {
  add_digests("outputs", known.call.outputs, digests, first, record);
  record.outputs_digest = joined_digests(digests, first, known.call.outputs.size());
}

// Cached by size: the buffers that a kernel adds to mostly hold zeros before it.
Digest digest_of_zeros(uint64_t bytes) {
  static thread_local std::unordered_map<uint64_t, Digest>* known = new std::unordered_map<uint64_t, Digest>;
  constexpr size_t kMost = 4096;
  if (known->size() > kMost) known->clear();
  const auto found = known->find(bytes);
  return found != known->end() ? found->second : known->emplace(bytes, digest_on_host(nullptr, bytes)).first->second;
}

// Returns which outputs held only zeros before the launch. The digests are those of its inputs and outputs.
std::vector<bool> zeros_before(const adapters::Call& call, const Digests& digests) {
  std::vector<bool> zeros;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const auto bytes = static_cast<uint64_t>(call.outputs[i].bytes());
    zeros.push_back(digests[call.inputs.size() + i] == digest_of_zeros(bytes));
  }
  return zeros;
}

// Drops copies, made ahead, of what is recorded already.
void drop_what_is_recorded(const adapters::Call& call, const Digests& digests, LaunchRecord& record) {
  if (record.content.known) record.inputs.clear();
  if (record.content.same_before) record.outputs_before.clear();
  const auto zeros = zeros_before(call, digests);
  for (size_t i = 0; i < record.outputs_before.size(); ++i) {
    if (zeros[i]) record.outputs_before[i] = zeros_like(call.outputs[i]);
  }
}

}  // namespace

SnapshotState::~SnapshotState() {
  if (digests.is_open()) Digester::instance().finish(digests, known->ranges, stream);
  // The block of a launch that was not delivered is freed only after the device has written into it.
  if (record.block && copies) cuda::driver().synchronize(stream);
}

[[gnu::hot]] Digests begin_digests(const Launched& launched, const KnownLaunch& known) {
  std::string failure;
  Digests digests = Digester::instance().begin(known.ranges, launched.stream, failure);
  if (!digests) Functions::instance().refuse(known.name, failure);
  return digests;
}

bool begin_copy(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state) {
  const Digests digests = digest_before(launched, adapter, state.is_kernel, state.known);
  if (!digests) return false;
  add_facts(launched, state);
  if (!recognise(*state.known, digests, state.record)) return false;
  const RegisteredContent& content = state.record.content;
  return copy_before(state, {!content.known, !content.same_before, zeros_before(state.known->call, digests)});
}

bool begin_copy_ahead(SnapshotState& state) { return copy_before(state, {}); }

// Without a wait, a launch whose tables have changed is lost if they decide sizes: only the digests after it show the
// change. The next launch with these parameters therefore waits.
bool begin_digest(const Launched& launched, const adapters::Adapter& adapter, SnapshotState& state) {
  if (!state.digests) state.digests = digest_before(launched, adapter, state.is_kernel, state.known);
  return static_cast<bool>(state.digests);
}

// Outputs are copied, then digested: when the digests are ready, so are the copies.
void end_registered(const Launched& launched, SnapshotState& state) {
  const auto& outputs = state.known->call.outputs;
  std::string failure;
  const auto digests = std::make_shared<Digests>();
  if (fetch(outputs, state, state.record.outputs)) {
    *digests = Digester::instance().start(state.known->outputs(), launched.stream, failure);
  }
  if (!*digests) {
    Functions::instance().refuse(state.known->name, "its outputs cannot be copied to the host");
    return;
  }
  const auto record = std::make_shared<LaunchRecord>();
  const auto delivered = [known = state.known, record, digests] {
    add_outputs(*known, *digests, 0, *record);
    recording().deliver(std::move(*record));
  };
  *record = std::move(state.record);
  if (recording().when_ready([digests] { return digests->ready(); }, delivered)) return;
  state.record = std::move(*record);  // its block is freed after the device has written into it
  recording().report_missed_launch(state.known->name);
}

// Everything except the digests is done here, while the device computes.
void end_unregistered(const Launched& launched, SnapshotState& state) {
  struct Ended {
    Digests digests;
    LaunchRecord record;
  };
  const auto& outputs = state.known->call.outputs;
  std::string failure;
  const auto ended = std::make_shared<Ended>();
  const bool is_digested = (!state.record.block || fetch(outputs, state, state.record.outputs)) &&
                           Digester::instance().extend(state.digests, state.known->outputs(), launched.stream, failure);
  if (is_digested) add_facts(launched, state);
  const auto delivered = [known = state.known, ended] {
    auto& [digests, record] = *ended;
    if (known->call.data_decide_sizes && !known->same_tables(digests)) {
      known->set_stale();
      recording().report_missed_launch(known->name);
      return;
    }
    if (!recognise(*known, digests, record)) return;
    drop_what_is_recorded(known->call, digests, record);
    add_outputs(*known, digests, known->ranges.size(), record);
    recording().deliver(std::move(record));
  };
  if (is_digested) {
    ended->digests = std::move(state.digests);
    ended->record = std::move(state.record);
    if (recording().when_ready([ended] { return ended->digests.ready(); }, delivered)) return;
    state.record = std::move(ended->record);  // its block is freed after the device has written into it
  }
  recording().report_missed_launch(state.known->name);
}

}  // namespace msda::record
