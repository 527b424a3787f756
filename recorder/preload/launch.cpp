#include "recorder/preload/launch.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "kernels/names.h"
#include "recorder/adapters/adapter.h"
#include "recorder/preload/asked_adapters.h"
#include "recorder/preload/recording.h"
#include "recorder/preload/staging.h"
#include "recorder/preload/warn.h"

namespace msda::record {

struct SnapshotState {
  adapters::Call call;
  Ticket ticket;
  std::vector<HostTensor> outputs_before;
  std::byte* outputs_memory = nullptr;  // for what the launch will have written
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

const char* name_of(cuda::Function function, bool& is_kernel) {
  const char* name = nullptr;
  is_kernel = false;
  if (cuda::driver().function_name(&name, function) == cuda::kSuccess && name != nullptr) return name;
  is_kernel = true;
  name = nullptr;
  if (cuda::driver().kernel_name(&name, function) == cuda::kSuccess && name != nullptr) return name;
  return "";
}

// What is known of the program's functions. A handle may come to mean another function when its module is unloaded, so
// a match is made sure of by the name at each launch; a function that was nothing to us stays that.
class Functions {
 public:
  bool is_stranger(cuda::Function function) const {
    return stranger(function).load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(function);
  }

  // Null for a function that no adapter knows or nobody asked for: from then on it is a stranger.
  const adapters::Adapter* adapter_of(cuda::Function function, std::string& name, bool& is_kernel) {
    const adapters::Adapter* adapter = nullptr;
    if (cuda::driver().complete) {
      name = name_of(function, is_kernel);
      adapter = adapter_of(name);
    }
    if (adapter == nullptr) stranger(function).store(reinterpret_cast<uintptr_t>(function), std::memory_order_relaxed);
    return adapter;
  }

  // Once for each kernel and reason.
  void refuse(const std::string& name, const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!refused_.insert(name + reason).second) return;
    }
    warn("kernel " + name + " is not recorded: " + reason);
  }

 private:
  const adapters::Adapter* adapter_of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    const adapters::Adapter* match = nullptr;
    for (const adapters::Adapter* adapter : asked_adapters()) {
      if (match == nullptr && adapter->matches(name)) match = adapter;
    }
    if (match != nullptr && !wanted(name.c_str())) match = nullptr;
    known_.emplace(name, match);
    return match;
  }

  std::atomic<uintptr_t>& stranger(cuda::Function function) const {
    return strangers_[(reinterpret_cast<uintptr_t>(function) >> 4) % kStrangers];
  }

  static constexpr size_t kStrangers = 16384;
  mutable std::atomic<uintptr_t> strangers_[kStrangers] = {};
  std::mutex mutex_;
  std::unordered_map<std::string, const adapters::Adapter*> known_;
  std::unordered_set<std::string> refused_;
};

Functions& functions() {
  static auto* functions = new Functions;  // never destroyed: launches go on while the program ends
  return *functions;
}

// Where the parameters lie, and their bytes.
bool read_parameters(const Launched& launched, bool is_kernel, adapters::Launch& launch) {
  const cuda::Driver& driver = cuda::driver();
  constexpr size_t kMost = 256;
  for (size_t i = 0; i < kMost; ++i) {
    size_t offset = 0, size = 0;
    const cuda::Result result = is_kernel ? driver.kernel_parameter(launched.function, i, &offset, &size)
                                          : driver.function_parameter(launched.function, i, &offset, &size);
    if (result != cuda::kSuccess) break;
    launch.parameters.push_back({offset, size});
  }
  if (launch.parameters.empty()) return false;
  const auto& last = launch.parameters.back();
  launch.bytes.resize(last.offset + last.size);
  if (launched.parameters != nullptr) {
    for (size_t i = 0; i < launch.parameters.size(); ++i) {
      std::memcpy(launch.bytes.data() + launch.parameters[i].offset, launched.parameters[i], launch.parameters[i].size);
    }
    return true;
  }
  const void* packed = nullptr;
  size_t size = 0;
  for (void** option = launched.extra; option != nullptr; option += 2) {
    const auto which = reinterpret_cast<uintptr_t>(option[0]);
    if (which == cuda::kParamEnd) break;
    if (which == cuda::kParamBufferPointer) packed = option[1];
    if (which == cuda::kParamBufferSize) size = *static_cast<const size_t*>(option[1]);
  }
  if (packed == nullptr || size < launch.bytes.size()) return false;
  std::memcpy(launch.bytes.data(), packed, launch.bytes.size());
  return true;
}

size_t staged_bytes(const std::vector<adapters::DeviceTensor>& tensors) {
  size_t total = 0;
  for (const auto& tensor : tensors) total += Staging::rounded(static_cast<size_t>(tensor.bytes()));
  return total;
}

// Asks for the tensors, one after the other from `memory` on; they are there when the stream has been waited for. False
// if they cannot be copied.
bool fetch(const std::vector<adapters::DeviceTensor>& tensors, cuda::Stream stream, std::byte* memory,
           std::vector<HostTensor>& host) {
  for (const auto& tensor : tensors) {
    const auto size = static_cast<size_t>(tensor.bytes());
    if (size > 0 && cuda::driver().copy_to_host(memory, tensor.address, size, stream) != cuda::kSuccess) return false;
    host.push_back({tensor.name, tensor.dtype.name, tensor.shape, {memory, size}});
    memory += Staging::rounded(size);
  }
  return true;
}

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call) {
  CallFacts facts;
  facts.texts["kernel"] = launch.kernel;
  facts.texts.insert(call.texts.begin(), call.texts.end());
  facts.integers.insert(call.integers.begin(), call.integers.end());
  if (call.dialect) facts.texts["dialect"] = kernels::name_of(*call.dialect);
  if (call.padding) facts.texts["padding_mode"] = kernels::name_of(*call.padding);
  if (call.align_corners) facts.integers["align_corners"] = *call.align_corners;
  if (call.dialect && (!call.padding || !call.align_corners)) facts.integers["unconfirmed"] = 1;
  facts.integers["shared_bytes"] = launched.shared_bytes;
  facts.integers["stream"] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(launched.stream));
  int device = 0;
  if (cuda::driver().current_device(&device) == cuda::kSuccess) facts.integers["device"] = device;
  facts.grid.assign(launched.grid.begin(), launched.grid.end());
  facts.block.assign(launched.block.begin(), launched.block.end());
  return facts;
}

void snapshot_before(const Launched& launched, Snapshot& snapshot) {
  adapters::Launch launch;
  bool is_kernel = false;
  const adapters::Adapter* adapter = functions().adapter_of(launched.function, launch.kernel, is_kernel);
  if (adapter == nullptr) return;
  if (!wanted(launch.kernel.c_str())) return;
  int capturing = 0;
  if (cuda::driver().is_capturing(launched.stream, &capturing) != cuda::kSuccess || capturing != 0) {
    functions().refuse(launch.kernel,
                       "its stream is being captured into a graph, whose replays run no launch of theirs");
    return;
  }
  if (!read_parameters(launched, is_kernel, launch)) {
    functions().refuse(launch.kernel, "the driver does not tell its parameters");
    return;
  }
  launch.grid = launched.grid;
  launch.block = launched.block;
  const auto read = [&](uint64_t address, void* to, size_t size) {
    return cuda::driver().copy_to_host(to, address, size, launched.stream) == cuda::kSuccess &&
           cuda::driver().synchronize(launched.stream) == cuda::kSuccess;
  };
  // Where nothing tells the type of the tensors, float32 is supposed, and the writer holds it against the outputs.
  launch.float_type = MSDA_FLOAT32;
  adapters::Decoded decoded = adapter->decode(launch, read);
  if (const auto* refusal = std::get_if<adapters::Refusal>(&decoded)) {
    functions().refuse(launch.kernel, refusal->reason);
    return;
  }
  auto state = std::make_unique<SnapshotState>();
  state->call = std::get<adapters::Call>(std::move(decoded));
  // Outputs have two blocks that take turns: the last call's stay while this one's are copied.
  static thread_local bool other = false;
  other = !other;
  const auto& outputs = state->call.outputs;
  const size_t output_bytes = staged_bytes(outputs);
  std::byte* to_inputs = Staging::of_this_thread(Staging::kInputs).reserve(staged_bytes(state->call.inputs));
  std::byte* to_outputs =
      Staging::of_this_thread(other ? Staging::kOtherOutputs : Staging::kOutputs).reserve(2 * output_bytes);
  std::vector<HostTensor> inputs;
  if (to_inputs == nullptr || to_outputs == nullptr || !fetch(state->call.inputs, launched.stream, to_inputs, inputs) ||
      !fetch(outputs, launched.stream, to_outputs, state->outputs_before) ||
      cuda::driver().synchronize(launched.stream) != cuda::kSuccess) {
    functions().refuse(launch.kernel, "its tensors cannot be copied to the host");
    return;
  }
  state->outputs_memory = to_outputs + output_bytes;
  LaunchParameters parameters;
  parameters.bytes = launch.bytes;
  for (const auto& parameter : launch.parameters) {
    parameters.offsets.push_back(static_cast<int64_t>(parameter.offset));
    parameters.sizes.push_back(static_cast<int64_t>(parameter.size));
  }
  const auto ticket = begin(facts_of(launched, launch, state->call), inputs, state->outputs_before, parameters);
  if (!ticket) return;
  state->ticket = *ticket;
  snapshot.state = std::move(state);
}

}  // namespace

bool passes_by(cuda::Function function) noexcept {
  try {
    return inside || functions().is_stranger(function);
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
  if (!snapshot.state || result != cuda::kSuccess) return;
  const Inside guard;
  const RelaxedCapture relaxed;
  const int saved = errno;
  try {
    const SnapshotState& state = *snapshot.state;
    std::vector<HostTensor> outputs;
    if (fetch(state.call.outputs, launched.stream, state.outputs_memory, outputs) &&
        cuda::driver().synchronize(launched.stream) == cuda::kSuccess) {
      end(state.ticket, state.outputs_before, outputs, /*bytes_stay=*/true);
    }
  } catch (...) {
  }
  errno = saved;
}

}  // namespace msda::record
