// The replays of grid_sample by libmsda's kernels.
#include "analysis/operators/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

msda_interpolation abi_of(Interpolation interpolation) { return static_cast<msda_interpolation>(interpolation); }
msda_grid_padding abi_of(GridPadding padding) { return static_cast<msda_grid_padding>(padding); }

static_assert(static_cast<int>(Interpolation::kNearest) == MSDA_NEAREST);
static_assert(static_cast<int>(Interpolation::kBicubic) == MSDA_BICUBIC);
static_assert(static_cast<int>(GridPadding::kBorder) == MSDA_GRID_BORDER);
static_assert(static_cast<int>(GridPadding::kReflection) == MSDA_GRID_REFLECTION);

}  // namespace

std::span<const char* const> GridSampleCall::stages() const { return kernels::kGridStageNames; }

bool GridSampleCall::run_kernels(const Conventions& of, const msda_options& options,
                                 std::span<const Tensor> results) const {
  msda_grid_sample_call call{};
  call.interpolation = abi_of(interpolation);
  call.padding = abi_of(padding);
  call.align_corners = of.align_corners;
  call.input = abi_tensor(input);
  call.grid = abi_tensor(grid);
  const msda_tensor of_output = abi_tensor(grad_output);
  const msda_tensor of_input = abi_tensor(results[GridSampleGradient::kInput.place()]);
  const msda_tensor of_grid = abi_tensor(results[GridSampleGradient::kGrid.place()]);
  throw_unless_ok(msda_grid_sample_backward(&call, &of_output, &options, &of_input, &of_grid));
  return true;
}

}  // namespace msda::analysis
