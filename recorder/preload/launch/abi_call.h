// What calls of our own C ABI have in common, on the CPU and on a GPU: their facts, and row-major copies of their
// tensors.
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

// Copies of tensors. One that makes no sense, which the real function will refuse, leaves it not ok().
class Copies {
 public:
  bool ok() const { return ok_; }
  const std::vector<HostTensor>& tensors() const { return tensors_; }

  // Of a tensor in host memory; one that is contiguous is not copied. Null is none.
  void add(const char* name, const msda_tensor* tensor);
  // Of tensors in device memory, once the stream has come to this point. Empty, or why they cannot be copied.
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

// With the mode, and of its options those that the mode has; the seed only where the function has one (`has_seed`).
// Empty for conventions and modes that there are not.
std::optional<CallFacts> facts_of(const char* kernel, const msda_call& call, const msda_options* options,
                                  bool has_seed);

// The outputs that a call is to write: calls with equal inputs that want different ones are different calls.
struct WantedOutputs {
  const msda_tensor *grad_value, *grad_sampling_locations, *grad_attention_weights;
};
std::string describe_outputs(const WantedOutputs& wanted);

// Calls the real function, and records the call if it is asked for and succeeds.
msda_status record_cpu_call(decltype(msda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights);
msda_status record_gpu_call(decltype(msda_cuda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights,
                            void* stream);

}  // namespace msda::record
