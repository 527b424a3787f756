#include "kernels/checked/interpolate.h"

#include <fmt/format.h>

#include <algorithm>

namespace msda::kernels {
namespace {

constexpr double kMostScale = 1e9;

int32_t checked_side(const char* name, int64_t side) {
  if (side < 1 || side > kMaxLevelSide) {
    throw InvalidArgument(fmt::format("{} has a side of {} pixels; sides go from 1 to {}", name, side, kMaxLevelSide));
  }
  return static_cast<int32_t>(side);
}

}  // namespace

CheckedInterpolate check_interpolate(const msda_interpolate_call& call, const msda_tensor& grad_input) {
  if (call.mode < MSDA_RESIZE_NEAREST || call.mode > MSDA_RESIZE_CUBIC) {
    throw InvalidArgument(fmt::format("no such mode of interpolate: {}", static_cast<int>(call.mode)));
  }
  const int rank = call.grad_output.rank;
  if (rank < 3 || rank > 5) throw InvalidArgument(fmt::format("grad_output has rank {}, not 3 to 5", rank));
  check_rank_and_sizes("grad_output", call.grad_output, rank);
  check_rank_and_sizes("grad_input", grad_input, rank);
  check_float("grad_output", call.grad_output);
  auto shape = shape_of(grad_input);
  std::copy_n(call.grad_output.shape, 2, shape.begin());
  check_result("grad_input", grad_input, shape);
  CheckedInterpolate checked{};
  for (int axis = 0; axis < 3; ++axis) {
    const int dimension = rank - 1 - axis;
    if (dimension < 2) {
      checked.axes[axis] = {MSDA_RESIZE_NEAREST, false, 1, 1, 0};
      continue;
    }
    const double scale = call.scale[axis];
    if (scale != 0 && !(scale >= 1 / kMostScale && scale <= kMostScale)) {
      throw InvalidArgument(fmt::format("scale {} is {}; factors go from {} to {}, and 0 is none", axis, scale,
                                        1 / kMostScale, kMostScale));
    }
    checked.axes[axis] = {call.mode, call.align_corners != 0, checked_side("grad_input", grad_input.shape[dimension]),
                          checked_side("grad_output", call.grad_output.shape[dimension]), scale};
  }
  checked.planes = call.grad_output.shape[0] == 0 || call.grad_output.shape[1] == 0
                       ? 0
                       : call.grad_output.shape[0] * call.grad_output.shape[1];
  checked.float64_inputs = call.grad_output.dtype == MSDA_FLOAT64;
  return checked;
}

}  // namespace msda::kernels
