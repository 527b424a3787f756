// What calls of our own C ABI on the CPU and on a GPU share: their facts, and row-major copies of their tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/msda.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/session/call_record.h"

namespace msda::record {

// Copies of tensors. ok() is false after an invalid tensor, which the real function will refuse.
class Copies {
 public:
  bool ok() const { return ok_; }
  const std::vector<HostTensor>& tensors() const { return tensors_; }

  // Adds a tensor in host memory; a contiguous one is not copied. Null adds nothing.
  void add(const char* name, const msda_tensor* tensor);
  // Adds tensors in device memory, once the stream has finished its earlier work. Returns why they cannot be copied, or
  // nothing.
  struct Named {
    const char* name;
    const msda_tensor* tensor;
  };
  std::string add_from_device(const std::vector<Named>& tensors, cuda::Stream stream);

 private:
  std::vector<std::byte>& new_memory(int64_t bytes);

  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  std::vector<HostTensor> tensors_;
  bool ok_ = true;
};

// Returns the facts of a call, with the mode and the options that apply to it; the seed only if the function has one
// (`has_seed`). Nothing for invalid conventions or modes.
std::optional<CallFacts> facts_of(const char* kernel, const msda_call& call, const msda_options* options,
                                  bool has_seed);

// The outputs that a call requests: calls with equal inputs and different requests are different calls.
struct WantedOutputs {
  const msda_tensor *grad_value, *grad_sampling_locations, *grad_attention_weights;
};
std::string describe_outputs(const WantedOutputs& wanted);

// Calls the real function, and records the call if it is selected and succeeds.
msda_status record_cpu_call(decltype(msda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights);
msda_status record_gpu_call(decltype(msda_cuda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights,
                            void* stream);

}  // namespace msda::record
