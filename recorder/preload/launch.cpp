#include "recorder/preload/launch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>

#include "kernels/names.h"
#include "recorder/adapters/adapter.h"
#include "recorder/preload/config.h"
#include "recorder/preload/courier.h"
#include "recorder/preload/cubin.h"
#include "recorder/preload/digester.h"
#include "recorder/preload/element_type.h"
#include "recorder/preload/functions.h"
#include "recorder/preload/images.h"
#include "recorder/preload/launch_facts.h"
#include "recorder/preload/recording.h"
#include "recorder/preload/ring.h"

namespace msda::record {
namespace {

using Tensors = std::vector<adapters::DeviceTensor>;

// A launch with certain parameters, as it was decoded when it came first.
struct Known {
  std::string name;
  adapters::Launch launch;
  adapters::Call call;
  std::string code;                  // the function, by its handle
  bool inputs_stay = false;          // none of them is an output too
  Digest tables;                     // of the inputs that decide how the others are read
  std::string label, content;        // of the last launch; the key of its content
  std::atomic<bool> repeats{false};  // the last content was recorded before
};

std::atomic<uint64_t> waits{0};  // of the program for the device

struct OfThread {
  std::unordered_map<std::string, std::shared_ptr<Known>> known;
  const Known* last = nullptr;  // launched
  uint64_t waits = 0;           // before it
};
thread_local OfThread* of_thread = nullptr;  // never destroyed: destructors of the host's may launch

}  // namespace

struct SnapshotState {
  std::shared_ptr<Known> known;
  bool follows = false;
  Digests digests;  // with --digest-only, of inputs and outputs before
  LaunchRecord record;
  std::byte* outputs_memory = nullptr;
  uint64_t outputs_offset = 0;
};

Snapshot::Snapshot() = default;
Snapshot::~Snapshot() = default;

namespace {

// While another thread captures a graph, allocating or waiting for a stream would make that capture invalid, unless
// this thread says that it knows.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() {
    if (cuda::driver().exchange_capture_mode != nullptr) cuda::driver().exchange_capture_mode(&mode_);
  }
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; after the first exchange, what it was
};

// The driver calls that the recorder makes itself may come back through the hooks.
thread_local bool inside = false;
class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

std::vector<DeviceRange> ranges_of(const Tensors& tensors) {
  std::vector<DeviceRange> ranges;
  for (const auto& tensor : tensors) ranges.push_back({tensor.address, static_cast<uint64_t>(tensor.bytes())});
  return ranges;
}

bool overlap(const Tensors& inputs, const Tensors& outputs) {
  for (const DeviceRange& a : ranges_of(inputs)) {
    for (const DeviceRange& b : ranges_of(outputs)) {
      if (a.address < b.address + b.bytes && b.address < a.address + a.bytes) return true;
    }
  }
  return false;
}

// Not forever: the stream may wait for something that this very thread is going to do.
bool wait_for(const Digests& digests, cuda::Stream stream) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!digests.ready()) {
    const auto waited = Clock::now() - begin;
    if (waited < std::chrono::microseconds(300)) continue;
    const cuda::Result state = cuda::driver().query(stream);
    if ((state != cuda::kSuccess && state != cuda::kNotReady) || waited > std::chrono::seconds(10)) {
      return digests.ready();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// How a launch's content is told from others: what it is, for what it is done, and what its inputs hold.
std::string content_key(const Known& known, const std::string& label, const Digests& digests) {
  const adapters::Call& call = known.call;
  std::string key = label + "\n" + known.name;
  if (call.padding) key += std::string(" ") + kernels::name_of(*call.padding);
  if (call.align_corners) key += *call.align_corners ? " align" : " no align";
  for (const auto& [name, value] : call.texts) key += "\n" + name + "=" + value;
  for (const auto& [name, value] : call.integers) key += "\n" + name + "=" + std::to_string(value);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& tensor = call.inputs[i];
    key += "\n" + tensor.name + " " + tensor.dtype.name + " " + in_hex(digests[i]);
    for (const int64_t side : tensor.shape) key += " " + std::to_string(side);
    key += " by";
    for (const int64_t stride : tensor.strides) key += " " + std::to_string(stride);
  }
  return key;
}

std::string digests_in_words(const Digests& digests, size_t first, size_t count) {
  std::string words;
  for (size_t i = first; i < first + count; ++i) words += in_hex(digests[i]) + " ";
  return words;
}

// Of the inputs that an adapter may have read: the integers among them.
Digest tables_of(const adapters::Call& call, const Digests& digests) {
  Digest tables;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype != MSDA_INT32 && call.inputs[i].dtype != MSDA_INT64) continue;
    tables.first += digests[i].first;
    tables.second += digests[i].second;
  }
  return tables;
}

constexpr uint64_t rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

uint64_t staged_bytes(const Tensors& tensors) {
  uint64_t total = 0;
  for (const auto& tensor : tensors) total += rounded(static_cast<uint64_t>(tensor.bytes()));
  return total;
}

// Asks for the tensors, one after the other from `memory` on. False if they cannot be copied.
bool fetch(const Tensors& tensors, cuda::Stream stream, std::byte*& memory, uint64_t& offset,
           std::vector<HostTensor>& host) {
  for (const auto& tensor : tensors) {
    const auto size = static_cast<size_t>(tensor.bytes());
    if (size > 0 && cuda::driver().copy_to_host(memory, tensor.address, size, stream) != cuda::kSuccess) return false;
    host.push_back({tensor.name, tensor.dtype.name, tensor.shape, {memory, size}, tensor.strides, offset});
    memory += rounded(size);
    offset += rounded(size);
  }
  return true;
}

// The first tensor that does not lie in allocated memory from end to end; empty if there is none. Reading it would be
// an error that the program's context does not recover from.
std::string stray(const adapters::Call& call) {
  for (const Tensors* tensors : {&call.inputs, &call.outputs}) {
    for (const auto& tensor : *tensors) {
      const uint64_t end = tensor.address + static_cast<uint64_t>(tensor.bytes());
      for (uint64_t at = tensor.address; at < end;) {
        cuda::DevicePointer base = 0;
        size_t bytes = 0;
        if (cuda::driver().address_range(&base, &bytes, at) != cuda::kSuccess || base + bytes <= at) return tensor.name;
        at = base + bytes;
      }
    }
  }
  return "";
}

// Null, with the reason said, for a launch that no adapter can read.
std::shared_ptr<Known> decode(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
                              adapters::Launch launch) {
  auto known = std::make_shared<Known>();
  known->name = launch.kernel;
  const auto read = [&](uint64_t address, void* to, size_t size) {
    // When a digest is there, so is all that the stream had to do: the copy need not wait for anybody.
    std::string failure;
    const DeviceRange first{address, 1};
    const Digests reached = Digester::instance().start({&first, 1}, launched.stream, failure);
    return reached && wait_for(reached, launched.stream) &&
           cuda::driver().copy_to_host(to, address, size, launched.stream) == cuda::kSuccess &&
           cuda::driver().synchronize(launched.stream) == cuda::kSuccess;
  };
  const auto image = image_of(launched.function, is_kernel);
  launch.float_type = image ? element_type_of(code_of(image->bytes, launch.kernel)) : MSDA_FLOAT32;
  adapters::Decoded decoded = adapter.decode(launch, read);
  if (const auto* refusal = std::get_if<adapters::Refusal>(&decoded)) {
    Functions::instance().refuse(launch.kernel, refusal->reason);
    return nullptr;
  }
  known->call = std::get<adapters::Call>(std::move(decoded));
  if (const std::string name = stray(known->call); !name.empty()) {
    Functions::instance().refuse(launch.kernel, name + " does not lie in device memory from end to end");
    return nullptr;
  }
  known->inputs_stay = !overlap(known->call.inputs, known->call.outputs);
  known->code = std::to_string(reinterpret_cast<uintptr_t>(launched.function));
  known->launch = std::move(launch);
  return known;
}

OfThread& this_thread() {
  if (of_thread == nullptr) of_thread = new OfThread;
  constexpr size_t kMost = 1024;
  if (of_thread->known.size() > kMost) of_thread->known.clear();
  return *of_thread;
}

// The digests of inputs and output buffers, waited for. `known` is decoded anew if the tables that it was read by have
// changed.
Digests look(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
             std::shared_ptr<Known>& known) {
  for (int again = 0; again < 2; ++again) {
    std::vector<DeviceRange> ranges = ranges_of(known->call.inputs);
    const auto outputs = ranges_of(known->call.outputs);
    ranges.insert(ranges.end(), outputs.begin(), outputs.end());
    std::string failure = "its stream does not come forward, or failed";
    Digests digests = Digester::instance().start(ranges, launched.stream, failure);
    if (!digests || !wait_for(digests, launched.stream)) {
      Functions::instance().refuse(known->name, failure);
      return {};
    }
    const Digest tables = tables_of(known->call, digests);
    if (known->content.empty()) known->tables = tables;
    if (known->tables == tables) return digests;
    known = decode(launched, adapter, is_kernel, known->launch);
    if (!known) return {};
  }
  return {};
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
      (before &&
       !fetch(call.outputs, launched.stream, state.outputs_memory, state.outputs_offset, record.outputs_before))) {
    ring->give_back(*block);
    Functions::instance().refuse(state.known->name, "its tensors cannot be copied to the host");
    return false;
  }
  return true;
}

void snapshot_before(const Launched& launched, Snapshot& snapshot) {
  adapters::Launch launch;
  bool is_kernel = false;
  const adapters::Adapter* adapter = Functions::instance().adapter_of(launched.function, launch.kernel, is_kernel);
  if (adapter == nullptr || !wanted(launch.kernel.c_str())) return;
  int capturing = 0;
  if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
    Functions::instance().refuse(launch.kernel,
                                 "its stream is being captured into a graph, whose replays run no launch of theirs");
    return;
  }
  if (!read_parameters(launched, is_kernel, launch)) {
    Functions::instance().refuse(launch.kernel, "the driver does not tell its parameters");
    return;
  }
  OfThread& mine = this_thread();
  const uint64_t waits_now = waits.load(std::memory_order_relaxed);
  auto& known = mine.known[key_of(launched, launch)];
  auto state = std::make_unique<SnapshotState>();
  state->follows = known && known->inputs_stay && known->repeats && mine.last == known.get() && mine.waits == waits_now;
  mine.waits = waits_now;
  if (!state->follows) {
    mine.last = nullptr;
    if (!known) known = decode(launched, *adapter, is_kernel, std::move(launch));
    const Digests digests = known ? look(launched, *adapter, is_kernel, known) : Digests();
    if (!digests) return;
    const size_t inputs = known->call.inputs.size(), outputs = known->call.outputs.size();
    CallFacts facts = stamped(facts_of(launched, known->launch, known->call));
    known->label = facts.texts["label"];
    known->content = content_key(*known, known->label, digests);
    const auto content = enter(known->content, digests_in_words(digests, inputs, outputs));
    if (!content) return;
    known->repeats = content->known;
    state->known = known;
    state->record.content = *content;
    state->record.code = known->code + " after";
    for (size_t i = 0; i < outputs; ++i) {
      if (!known->call.outputs[i].written_over) state->record.code += " " + in_hex(digests[inputs + i]);
    }
    if (!copy_before(launched, *state)) {
      leave(*content);
      return;
    }
    state->record.facts = std::move(facts);
    if (const auto image = image_of(launched.function, is_kernel)) {
      state->record.facts.texts["kernel_digest"] = image->digest;
      deliver_code(known->name, *image, code_facts_of(launched.function, is_kernel));
    }
    add_parameters(known->launch, state->record);
  }
  state->known = known;
  mine.last = known.get();
  snapshot.state = std::move(state);
}

// Behind a trial: that its inputs were those that are recorded, and whether its outputs are new ones.
void follow(const Launched& launched, SnapshotState& state) {
  const std::shared_ptr<Known> known = state.known;
  std::vector<DeviceRange> ranges = ranges_of(known->call.inputs);
  bool outputs = false;
  for (const auto& tensor : known->call.outputs) {
    if (!tensor.written_over) continue;
    ranges.push_back({tensor.address, static_cast<uint64_t>(tensor.bytes())});
    outputs = true;
  }
  std::string failure;
  Digests digests = Digester::instance().start(ranges, launched.stream, failure);
  const size_t inputs = known->call.inputs.size(), all = ranges.size();
  const auto counted = [known, label = known->label, content = known->content, inputs, all,
                        outputs](const Digests& ready) {
    if (content_key(*known, label, ready) != content) {
      known->repeats = false;
      missed(known->name);
      return;
    }
    count(content, known->code + " trial", outputs ? digests_in_words(ready, inputs, all - inputs) : "");
  };
  if (!digests || !Courier::instance().when_ready(std::move(digests), counted)) missed(known->name);
}

// Outputs are copied, then digested: when the digests are there, so are the copies.
void copy_after(const Launched& launched, SnapshotState& state) {
  LaunchRecord& record = state.record;
  const auto& outputs = state.known->call.outputs;
  const bool copied = fetch(outputs, launched.stream, state.outputs_memory, state.outputs_offset, record.outputs);
  std::string failure;
  Digests digests = copied ? Digester::instance().start(ranges_of(outputs), launched.stream, failure) : Digests();
  const size_t count = outputs.size();
  const auto shared = std::make_shared<LaunchRecord>(std::move(record));
  const auto delivered = [shared, count](const Digests& ready) {
    shared->outputs_digest = digests_in_words(ready, 0, count);
    deliver(std::move(*shared));
  };
  if (digests && Courier::instance().when_ready(std::move(digests), delivered)) return;
  leave(shared->content);
  Functions::instance().refuse(state.known->name, "its outputs cannot be copied to the host");
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
  const Inside guard;
  const RelaxedCapture relaxed;
  const int saved = errno;
  try {
    snapshot_before(launched, snapshot);
  } catch (...) {  // no memory: this launch goes by unrecorded
  }
  errno = saved;
}

void after_launch(const Launched& launched, Snapshot& snapshot, cuda::Result result) noexcept {
  if (!snapshot.state) return;
  const Inside guard;
  const RelaxedCapture relaxed;
  const int saved = errno;
  try {
    SnapshotState& state = *snapshot.state;
    if (result != cuda::kSuccess) {
      if (!state.follows) leave(state.record.content);
    } else if (state.follows) {
      follow(launched, state);
    } else {
      copy_after(launched, state);
    }
  } catch (...) {
  }
  errno = saved;
}

void program_waited() noexcept {
  if (!inside) waits.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace msda::record
