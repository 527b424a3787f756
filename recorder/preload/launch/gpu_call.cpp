// Records calls of msda_cuda_backward of our own C ABI, on a GPU. The call is recorded as a whole; no adapter knows the
// kernels that it launches. Inputs are copied before it and outputs after it, each time with the caller waiting for the
// stream. The call is recorded once it has succeeded and everything is copied.
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/msda.h"
#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/launch/abi_call.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

constexpr const char* kName = "msda_cuda_backward";

// Makes a context current for the recorder's copies. A thread that has not used CUDA yet has none; the call will use
// the first device's, as CUDA's runtime does.
class SomeContext {
 public:
  SomeContext() {
    const cuda::Driver& driver = cuda::driver();
    cuda::Context context = nullptr;
    if (driver.current_context(&context) != cuda::kSuccess || context != nullptr) return;
    if (driver.retain_primary_context == nullptr || driver.set_context == nullptr) return;
    // Retained until the process ends: the program's tensors live in it.
    static constinit MadeOnce<const cuda::Context> kept;
    const cuda::Context first = kept.get([&] {
      cuda::Context found = nullptr;
      const bool retained = driver.retain_primary_context(&found, 0) == cuda::kSuccess;
      return std::make_unique<const cuda::Context>(retained ? found : nullptr);
    });
    taken_ = first != nullptr && driver.set_context(first) == cuda::kSuccess;
  }
  ~SomeContext() {
    if (taken_) cuda::driver().set_context(nullptr);
  }
  SomeContext(const SomeContext&) = delete;
  SomeContext& operator=(const SomeContext&) = delete;

 private:
  bool taken_ = false;
};

// The recorder looks up the driver's functions once, so not before the driver is loaded: if this call is the process'
// first use of CUDA, the call loads it.
bool has_driver() noexcept {
  static std::atomic<bool> loaded{false};
  if (loaded) return true;
  const int saved = errno;
  loaded = definition_in("libcuda.so.1", "cuInit") != nullptr;
  errno = saved;
  return loaded;
}

void refuse(const std::string& reason) noexcept {
  const int saved = errno;
  try {
    if (recording().wants(kName)) Functions::instance().refuse(kName, reason);
  } catch (...) {
  }
  errno = saved;
}

// Returns why nothing can be copied, or nothing.
std::string trouble_with(cuda::Stream stream) {
  if (cuda::driver().missing != nullptr) return std::string("this CUDA driver lacks ") + cuda::driver().missing;
  int capturing = 0;
  if (cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) {
    return "its stream is being captured into a CUDA graph";
  }
  return "";
}

constexpr const char* kNoMemory = "there is no memory for copies of its tensors";

struct Call {
  bool asked_for = false;
  std::string refusal;  // why it cannot be recorded; reported if the call succeeds
  CallFacts facts;
  Copies inputs;
};

void before_call(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                 cuda::Stream stream, Call& state) {
  if (call == nullptr || grad_output == nullptr || !recording().wants(kName)) return;
  const auto facts = facts_of(kName, *call, options, /*has_seed=*/false);
  if (!facts) return;
  state.asked_for = true;
  const SomeContext context;
  state.refusal = trouble_with(stream);
  if (!state.refusal.empty()) return;
  state.facts = *facts;
  state.facts.integers["stream"] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(stream));
  int device = 0;
  if (cuda::driver().current_device(&device) == cuda::kSuccess) state.facts.integers["device"] = device;
  state.refusal = kNoMemory;  // replaced below, unless allocation fails
  state.refusal = state.inputs.add_from_device({{"value", &call->value},
                                                {"sampling_locations", &call->sampling_locations},
                                                {"attention_weights", &call->attention_weights},
                                                {"grad_output", grad_output}},
                                               stream);
}

void after_call(const msda_call& call, const WantedOutputs& to, cuda::Stream stream, Call& state) {
  Copies outputs;
  if (state.refusal.empty()) {
    const SomeContext context;
    state.refusal = outputs.add_from_device({{"grad_value", to.grad_value},
                                             {"grad_sampling_locations", to.grad_sampling_locations},
                                             {"grad_attention_weights", to.grad_attention_weights}},
                                            stream);
  }
  if (!state.refusal.empty()) return refuse(state.refusal);
  // These lie in host memory, where the successful call has read them.
  state.inputs.add("spatial_shapes", &call.spatial_shapes);
  if (call.level_start_index.rank > 0) state.inputs.add("level_start_index", &call.level_start_index);
  if (!state.inputs.ok() || !outputs.ok()) return;
  auto recorded = recording().begin_call(state.facts, state.inputs.tensors(), describe_outputs(to));
  if (recorded) recording().end_call(*std::move(recorded), outputs.tensors());
}

}  // namespace

msda_status record_gpu_call(decltype(msda_cuda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights,
                            void* stream) {
  const auto on = static_cast<cuda::Stream>(stream);
  std::optional<Call> state;
  if (has_driver()) by_itself([&] { before_call(call, grad_output, options, on, state.emplace()); });
  const msda_status status =
      real(call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights, stream);
  if (!state) {
    if (status == MSDA_OK) refuse("the process had not loaded the CUDA driver before it");
    return status;
  }
  by_itself([&] {
    const WantedOutputs to{grad_value, grad_sampling_locations, grad_attention_weights};
    if (status == MSDA_OK && state->asked_for) after_call(*call, to, on, *state);
    state.reset();
  });
  return status;
}

}  // namespace msda::record
