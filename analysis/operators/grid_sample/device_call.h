// grid_sample's backward pass on a GPU.
#pragma once

#include "analysis/model/device_call.h"
#include "kernels/grid_sample.h"

namespace msda::analysis {

class GridDeviceCall final : public DeviceCall {
 public:
  // The signature of msda_cuda_grid_sample_backward(), which tests replace on machines without a GPU.
  using Function = decltype(&msda_cuda_grid_sample_backward);

  GridDeviceCall(const msda_grid_sample_call& call, const msda_tensor& grad_output, const msda_options& options,
                 const msda_tensor& grad_input, const msda_tensor& grad_grid,
                 Function function = msda_cuda_grid_sample_backward)
      : call_(call),
        grad_output_(grad_output),
        options_(options),
        grad_input_(grad_input),
        grad_grid_(grad_grid),
        function_(function) {}

  std::unique_ptr<DeviceCall> copy() const override { return std::make_unique<GridDeviceCall>(*this); }
  std::vector<msda_tensor*> inputs() override { return {&call_.input, &call_.grid, &grad_output_}; }
  std::vector<msda_tensor*> results() override { return {&grad_input_, &grad_grid_}; }
  msda_status run(void* stream) override {
    return function_(&call_, &grad_output_, &options_, &grad_input_, &grad_grid_, stream);
  }
  uint64_t device_bytes() const override;
  // Splits by batch: no sum goes over batches.
  std::vector<std::unique_ptr<DeviceCall>> halves() const override;
  std::string least() const override { return "one batch"; }

 private:
  msda_grid_sample_call call_;
  msda_tensor grad_output_;
  msda_options options_;
  msda_tensor grad_input_, grad_grid_;
  Function function_;
};

}  // namespace msda::analysis
