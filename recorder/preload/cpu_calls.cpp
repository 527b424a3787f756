// Calls of msda_backward of our own C ABI, on the CPU: the recorder's msda_backward takes them, records them, and calls
// the real one.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/msda.h"
#include "kernels/names.h"
#include "recorder/preload/interpose.h"
#include "recorder/preload/recording.h"

namespace msda::record {
namespace {

using Backward = decltype(&msda_backward);
std::atomic<Backward> real_backward{nullptr};

// A row-major copy of a tensor; false for one that makes no sense, which the real function will refuse.
bool copy(const char* name, const msda_tensor& tensor, std::vector<std::byte>& memory, HostTensor& host) {
  if (tensor.rank < 0 || tensor.rank > MSDA_MAX_RANK || tensor.dtype < MSDA_FLOAT16 || tensor.dtype > MSDA_INT64)
    return false;
  const int64_t size = kernels::bytes_of(tensor.dtype);
  int64_t elements = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] < 0 || __builtin_mul_overflow(elements, tensor.shape[i], &elements)) return false;
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, size, &bytes) || (tensor.data == nullptr && bytes > 0)) return false;
  bool contiguous = true;
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    contiguous = contiguous && (tensor.shape[i] <= 1 || tensor.stride[i] == stride);
    stride *= tensor.shape[i];
  }
  const auto* data = static_cast<const std::byte*>(tensor.data);
  host = {name,
          kernels::name_of(tensor.dtype),
          {tensor.shape, tensor.shape + tensor.rank},
          {data, static_cast<size_t>(bytes)}};
  if (contiguous) return true;
  memory.resize(static_cast<size_t>(bytes));
  int64_t index[MSDA_MAX_RANK] = {};
  for (int64_t flat = 0; flat < elements; ++flat) {
    int64_t from = 0;
    for (int i = 0; i < tensor.rank; ++i) from += index[i] * tensor.stride[i];
    std::copy_n(data + from * size, size, memory.data() + flat * size);
    for (int i = tensor.rank - 1; i >= 0 && ++index[i] == tensor.shape[i]; --i) index[i] = 0;
  }
  host.bytes = memory;
  return true;
}

class Copies {
 public:
  bool ok() const { return ok_; }
  const std::vector<HostTensor>& tensors() const { return tensors_; }
  void add(const char* name, const msda_tensor* tensor) {
    if (tensor == nullptr) return;
    memory_.emplace_back(std::make_unique<std::vector<std::byte>>());
    tensors_.emplace_back();
    ok_ = copy(name, *tensor, *memory_.back(), tensors_.back()) && ok_;
  }

 private:
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  std::vector<HostTensor> tensors_;
  bool ok_ = true;
};

// Empty for a call that makes no sense or is not asked for.
std::optional<Ticket> begin_call(const msda_call* call, const msda_tensor* grad_output) {
  if (call == nullptr || grad_output == nullptr || !wanted("msda_backward")) return std::nullopt;
  if (call->dialect < 0 || call->dialect > MSDA_GRID_SAMPLE || call->padding < 0 ||
      call->padding > MSDA_PADDING_BORDER) {
    return std::nullopt;
  }
  Copies inputs;
  inputs.add("value", &call->value);
  inputs.add("spatial_shapes", &call->spatial_shapes);
  if (call->level_start_index.rank > 0) inputs.add("level_start_index", &call->level_start_index);
  inputs.add("sampling_locations", &call->sampling_locations);
  inputs.add("attention_weights", &call->attention_weights);
  inputs.add("grad_output", grad_output);
  if (!inputs.ok()) return std::nullopt;
  CallFacts facts;
  facts.texts = {{"kernel", "msda_backward"},
                 {"dialect", kernels::name_of(call->dialect)},
                 {"padding_mode", kernels::name_of(call->padding)}};
  facts.integers = {{"align_corners", call->align_corners != 0}};
  return begin(facts, inputs.tensors());  // it overwrites its outputs: what they held before decides nothing
}

}  // namespace

void* substitute_cpu_call(const char* name, void* found) noexcept {
  if (std::string_view(name) != "msda_backward") return nullptr;
  const auto real = reinterpret_cast<Backward>(found);
  if (real == &msda_backward) return nullptr;
  Backward none = nullptr;
  // One libmsda in a process; of a second copy the calls go by unrecorded.
  if (!real_backward.compare_exchange_strong(none, real) && none != real) return nullptr;
  return reinterpret_cast<void*>(&msda_backward);
}

}  // namespace msda::record

extern "C" MSDA_API msda_status msda_backward(const msda_call* call, const msda_tensor* grad_output,
                                              const msda_options* options, const msda_tensor* grad_value,
                                              const msda_tensor* grad_sampling_locations,
                                              const msda_tensor* grad_attention_weights) {
  using namespace msda::record;
  Backward real = real_backward.load();
  if (real == nullptr) {
    real = reinterpret_cast<Backward>(next_definition("msda_backward"));
    real_backward = real;
  }
  if (real == nullptr) return MSDA_INTERNAL_ERROR;  // nobody but the preload defines it: the program was not linked
  std::optional<Ticket> ticket;
  try {
    ticket = begin_call(call, grad_output);
  } catch (...) {  // no memory for a copy
  }
  const msda_status status =
      real(call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights);
  if (ticket && status == MSDA_OK) {
    try {
      Copies outputs;
      outputs.add("grad_value", grad_value);
      outputs.add("grad_sampling_locations", grad_sampling_locations);
      outputs.add("grad_attention_weights", grad_attention_weights);
      end(*ticket, outputs.tensors());
    } catch (...) {
    }
  }
  return status;
}
