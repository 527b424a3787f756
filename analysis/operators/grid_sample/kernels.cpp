// The replays of grid_sample by libmsda's kernels.
#include "analysis/operators/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "analysis/operators/grid_sample/device_call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

msda_interpolation abi_of(Interpolation interpolation) { return static_cast<msda_interpolation>(interpolation); }
msda_grid_padding abi_of(GridPadding padding) { return static_cast<msda_grid_padding>(padding); }

static_assert(static_cast<int>(Interpolation::kNearest) == MSDA_NEAREST);
static_assert(static_cast<int>(Interpolation::kBicubic) == MSDA_BICUBIC);
static_assert(static_cast<int>(GridPadding::kBorder) == MSDA_GRID_BORDER);
static_assert(static_cast<int>(GridPadding::kReflection) == MSDA_GRID_REFLECTION);

msda_grid_sample_call abi_call(const GridSampleCall& of, const Conventions& conventions) {
  msda_grid_sample_call call{};
  call.interpolation = abi_of(of.interpolation);
  call.padding = abi_of(of.padding);
  call.align_corners = conventions.align_corners;
  call.input = abi_tensor(of.input);
  call.grid = abi_tensor(of.grid);
  return call;
}

}  // namespace

std::span<const char* const> GridSampleCall::stages() const { return kernels::kGridStageNames; }

bool GridSampleCall::run_kernels(const Conventions& of, const msda_options& options,
                                 std::span<const Tensor> results) const {
  const msda_grid_sample_call call = abi_call(*this, of);
  const msda_tensor of_output = abi_tensor(grad_output);
  const msda_tensor of_input = abi_tensor(results[GridSampleGradient::kInput.place()]);
  const msda_tensor of_grid = abi_tensor(results[GridSampleGradient::kGrid.place()]);
  throw_unless_ok(msda_grid_sample_backward(&call, &of_output, &options, &of_input, &of_grid));
  return true;
}

std::unique_ptr<DeviceCall> GridSampleCall::device_call(const Conventions& of, const msda_options& options,
                                                        std::span<const Tensor> results) const {
  return std::make_unique<GridDeviceCall>(abi_call(*this, of), abi_tensor(grad_output), options,
                                          abi_tensor(results[GridSampleGradient::kInput.place()]),
                                          abi_tensor(results[GridSampleGradient::kGrid.place()]));
}

}  // namespace msda::analysis
