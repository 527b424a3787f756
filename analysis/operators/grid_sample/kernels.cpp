// grid_sample's calls as libmsda's kernels take them, whole and in parts.
#include "analysis/model/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

// Moves a tensor to begin at element `flat`.
void begin_at(msda_tensor& tensor, int64_t flat) {
  tensor.data = static_cast<char*>(tensor.data) + flat * kernels::bytes_of(tensor.dtype);
}

}  // namespace

GridAbiCall abi_call(const GridSampleCall& call) {
  GridAbiCall abi{};
  abi.call.interpolation = call.interpolation;
  abi.call.padding = call.padding;
  abi.call.align_corners = call.align_corners;
  abi.call.input = abi_tensor(call.image);
  abi.call.grid = abi_tensor(call.locations);
  abi.grad_output = abi_tensor(call.grad_output);
  return abi;
}

GridAbiCall abi_samples(const GridSampleCall& call, int64_t n, int64_t first, int64_t count) {
  GridAbiCall abi = abi_call(call);
  begin_at(abi.call.input, n * call.C * call.pixels);
  begin_at(abi.call.grid, (n * call.samples + first) * call.axes_count);
  begin_at(abi.grad_output, n * call.C * call.samples + first);
  abi.call.input.shape[0] = abi.call.grid.shape[0] = abi.grad_output.shape[0] = 1;
  for (int i = 0; i < call.axes_count; ++i) {
    abi.call.grid.shape[1 + i] = abi.grad_output.shape[2 + i] = i == 0 ? count : 1;
    abi.call.grid.stride[1 + i] = call.axes_count;
    abi.grad_output.stride[2 + i] = 1;
  }
  return abi;
}

GridAbiCall abi_channel(const GridSampleCall& call, int64_t n, int64_t c) {
  GridAbiCall abi = abi_call(call);
  begin_at(abi.call.input, (n * call.C + c) * call.pixels);
  begin_at(abi.call.grid, n * call.samples * call.axes_count);
  begin_at(abi.grad_output, (n * call.C + c) * call.samples);
  abi.call.input.shape[0] = abi.call.grid.shape[0] = abi.grad_output.shape[0] = 1;
  abi.call.input.shape[1] = abi.grad_output.shape[1] = 1;
  return abi;
}

std::span<const char* const> GridSampleCall::float64_stages() const { return kernels::kGridStageNames; }

void GridSampleCall::run_kernels(const msda_options& options, std::span<const Tensor> results) const {
  const GridAbiCall abi = abi_call(*this);
  const msda_tensor of_input = abi_tensor(results[GridSampleGradient::kInput.place()]);
  const msda_tensor of_grid = abi_tensor(results[GridSampleGradient::kGrid.place()]);
  throw_unless_ok(msda_grid_sample_backward(&abi.call, &abi.grad_output, &options, &of_input, &of_grid));
}

}  // namespace msda::analysis
