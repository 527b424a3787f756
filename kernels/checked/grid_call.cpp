#include "kernels/checked/grid_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/sample.h"

namespace msda::kernels {
namespace {

void check_grid_conventions(const msda_grid_sample_call& call) {
  if (call.interpolation < MSDA_BILINEAR || call.interpolation > MSDA_BICUBIC) {
    throw InvalidArgument(fmt::format("no such interpolation: {}", static_cast<int>(call.interpolation)));
  }
  if (call.padding < MSDA_GRID_ZEROS || call.padding > MSDA_GRID_PIXELS) {
    throw InvalidArgument(fmt::format("no such padding: {}", static_cast<int>(call.padding)));
  }
  if (call.input.rank != 4 && call.input.rank != 5) {
    throw InvalidArgument(fmt::format("input has rank {}, not 4 or 5", call.input.rank));
  }
  if (call.interpolation == MSDA_BICUBIC && call.input.rank == 5) {
    throw InvalidArgument("there is no bicubic interpolation in 3D");
  }
  if (call.padding == MSDA_GRID_PIXELS && call.interpolation != MSDA_BILINEAR) {
    throw InvalidArgument("a grid in pixels has bilinear interpolation alone");
  }
}

}  // namespace

CheckedGridCall check_grid_call(const msda_grid_sample_call& call, const msda_tensor& grad_output) {
  check_grid_conventions(call);
  const int rank = call.input.rank;
  check_rank_and_sizes("input", call.input, rank);
  check_rank_and_sizes("grid", call.grid, rank);
  CheckedGridCall checked{};
  checked.interpolation = call.interpolation;
  checked.padding = call.padding;
  checked.align_corners = call.align_corners != 0;
  checked.axes = rank - 2;
  checked.N = call.input.shape[0];
  checked.C = call.input.shape[1];
  checked.pixels = checked.samples = 1;
  std::vector<int64_t> of_grid{checked.N}, of_output{checked.N, checked.C};
  checked.sides[2] = 1;
  for (int axis = checked.axes - 1; axis >= 0; --axis) {
    const int64_t side = call.input.shape[rank - 1 - axis], samples = call.grid.shape[rank - 2 - axis];
    if (side < 1 || side > kMaxLevelSide) {
      throw InvalidArgument(fmt::format("input has a side of {} pixels; sides go from 1 to {}", side, kMaxLevelSide));
    }
    checked.sides[axis] = static_cast<int32_t>(side);
    checked.pixels *= side;
    checked.samples *= samples;
    of_grid.push_back(samples);
    of_output.push_back(samples);
  }
  of_grid.push_back(checked.axes);
  check_exact_shape("grid", call.grid, of_grid);
  check_exact_shape("grad_output", grad_output, of_output);
  for (const auto& [name, tensor] :
       {std::pair{"input", &call.input}, {"grid", &call.grid}, {"grad_output", &grad_output}}) {
    check_float(name, *tensor);
    checked.float64_inputs |= tensor->dtype == MSDA_FLOAT64;
  }
  return checked;
}

msda_tensor channels_last(const msda_tensor& tensor) {
  msda_tensor view = tensor;
  std::rotate(view.shape + 1, view.shape + 2, view.shape + view.rank);
  std::rotate(view.stride + 1, view.stride + 2, view.stride + view.rank);
  return view;
}

}  // namespace msda::kernels
