// Deformable attention's backward pass on a GPU.
#pragma once

#include <array>

#include "analysis/model/device_call.h"

namespace msda::analysis {

class MsdaDeviceCall final : public DeviceCall {
 public:
  // The signature of msda_cuda_backward(), which tests replace on machines without a GPU.
  using Function = decltype(&msda_cuda_backward);
  using Results = std::array<msda_tensor, 3>;  // grad_value, grad_sampling_locations, grad_attention_weights

  MsdaDeviceCall(const msda_call& call, const msda_tensor& grad_output, const msda_options& options,
                 const Results& results, Function function = msda_cuda_backward)
      : call_(call), grad_output_(grad_output), options_(options), results_(results), function_(function) {}

  std::unique_ptr<DeviceCall> copy() const override { return std::make_unique<MsdaDeviceCall>(*this); }
  std::vector<msda_tensor*> inputs() override;
  std::vector<msda_tensor*> results() override { return {&results_[0], &results_[1], &results_[2]}; }
  msda_status run(void* stream) override;
  uint64_t device_bytes() const override;
  // Splits by batch, then by head: no sum goes over either.
  std::vector<std::unique_ptr<DeviceCall>> halves() const override;
  std::string least() const override { return "one head of one batch"; }

 private:
  msda_call call_;
  msda_tensor grad_output_;
  msda_options options_;
  Results results_;
  Function function_;
};

}  // namespace msda::analysis
