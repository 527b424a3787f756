// grid_sample's calls as libmsda's kernels take them, whole and in parts.
#include "analysis/model/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"

namespace msda::analysis {
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
  for (msda_tensor* tensor : {&abi.call.input, &abi.call.grid, &abi.grad_output}) keep_part(*tensor, 0, n, 1);
  for (int i = 0; i < call.axes_count; ++i) {
    abi.call.grid.stride[1 + i] = call.axes_count;
    abi.grad_output.stride[2 + i] = 1;
    keep_part(abi.call.grid, 1 + i, i == 0 ? first : 0, i == 0 ? count : 1);
    keep_part(abi.grad_output, 2 + i, i == 0 ? first : 0, i == 0 ? count : 1);
  }
  return abi;
}

GridAbiCall abi_channel(const GridSampleCall& call, int64_t n, int64_t c) {
  GridAbiCall abi = abi_call(call);
  for (msda_tensor* tensor : {&abi.call.input, &abi.call.grid, &abi.grad_output}) keep_part(*tensor, 0, n, 1);
  for (msda_tensor* tensor : {&abi.call.input, &abi.grad_output}) keep_part(*tensor, 1, c, 1);
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
