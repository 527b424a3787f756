#include "kernels/checked/separable.h"

#include <fmt/format.h>

#include <algorithm>

namespace msda::kernels {
namespace {

// The kernels add up three of these in 32 bits.
constexpr int64_t kMostSide = int64_t{1} << 29;

int64_t checked_number(const char* name, int axis, int64_t number, int64_t least) {
  if (number < least || number > kMostSide) {
    throw InvalidArgument(fmt::format("{}[{}] is {}; it goes from {} to {}", name, axis, number, least, kMostSide));
  }
  return number;
}

// Returns the number of windows along an axis, as PyTorch counts them: in ceil_mode the last one may end beyond the
// padding, but has to begin before it.
int64_t windows_of(const msda_separable_call& call, int axis, int64_t in) {
  const int64_t kernel = checked_number("kernel_size", axis, call.kernel_size[axis], 1);
  const int64_t stride = checked_number("stride", axis, call.stride[axis], 1);
  const int64_t padding = checked_number("padding", axis, call.padding[axis], 0);
  if (padding > kernel / 2) {
    throw InvalidArgument(
        fmt::format("padding[{}] is {}; it is at most half of kernel_size, {}", axis, padding, kernel));
  }
  const int64_t room = in + 2 * padding - kernel + (call.ceil_mode ? stride - 1 : 0);
  const int64_t count = room < 0 ? 0 : room / stride + 1;
  return call.ceil_mode && (count - 1) * stride >= in + padding ? count - 1 : count;
}

// Returns the number of outputs along an axis of a padded input.
int64_t padded(const msda_separable_call& call, int axis, int64_t in) {
  const int64_t before = checked_number("padding", axis, call.padding[axis], -kMostSide);
  const int64_t after = checked_number("padding_after", axis, call.padding_after[axis], -kMostSide);
  if (call.map == MSDA_REFLECTION_PAD && std::max(before, after) >= in) {
    throw InvalidArgument(fmt::format("padding[{}] is {} and {}; a reflection of {} inputs has at most {}", axis,
                                      before, after, in, in - 1));
  }
  return in + before + after;
}

SeparableSizes checked_axis(const msda_separable_call& call, int axis, int64_t in, int64_t out) {
  for (const auto& [name, side] : {std::pair{"grad_input", in}, {"grad_output", out}}) {
    if (side < 1 || side > kMostSide) {
      throw InvalidArgument(fmt::format("{} has a side of {}; sides go from 1 to {}", name, side, kMostSide));
    }
  }
  const bool is_average = call.map == MSDA_AVG_POOL, is_pad = call.map >= MSDA_REFLECTION_PAD;
  const int64_t wanted = is_average ? windows_of(call, axis, in) : is_pad ? padded(call, axis, in) : out;
  if (out != wanted) {
    throw InvalidArgument(fmt::format("grad_output has {} elements along side {}, not {}", out, axis, wanted));
  }
  SeparableSizes sizes{call.map, static_cast<int32_t>(in), static_cast<int32_t>(out), 1, 1, 0, false, is_pad ? 1.0 : 0};
  if (is_average) {
    sizes.kernel = static_cast<int32_t>(call.kernel_size[axis]);
    sizes.stride = static_cast<int32_t>(call.stride[axis]);
    sizes.counts_padding = call.count_include_pad != 0;
    if (call.divisor_override != 0) sizes.divisor = axis == 0 ? static_cast<double>(call.divisor_override) : 1;
  } else if (!is_pad && in % out == 0) {  // windows side by side
    sizes.map = MSDA_AVG_POOL;
    sizes.kernel = sizes.stride = static_cast<int32_t>(in / out);
  }
  if (is_average || is_pad) sizes.padding = static_cast<int32_t>(call.padding[axis]);
  return sizes;
}

}  // namespace

CheckedSeparable check_separable(const msda_separable_call& call, const msda_tensor& grad_input) {
  if (call.map < MSDA_AVG_POOL || call.map > MSDA_REPLICATION_PAD) {
    throw InvalidArgument(fmt::format("no such separable map: {}", static_cast<int>(call.map)));
  }
  if (call.sides < 1 || call.sides > 3) throw InvalidArgument(fmt::format("{} sides; there are 1 to 3", call.sides));
  const int rank = call.grad_output.rank, leading = rank - call.sides;
  if (leading < 1 || rank > MSDA_MAX_RANK) {
    throw InvalidArgument(fmt::format("grad_output has rank {}; with {} sides it is {} to {}", rank, call.sides,
                                      call.sides + 1, MSDA_MAX_RANK));
  }
  check_rank_and_sizes("grad_output", call.grad_output, rank);
  check_rank_and_sizes("grad_input", grad_input, rank);
  check_float("grad_output", call.grad_output);
  auto shape = shape_of(grad_input);
  std::copy_n(call.grad_output.shape, leading, shape.begin());
  check_result("grad_input", grad_input, shape);

  CheckedSeparable checked{};
  for (int axis = 0; axis < 3; ++axis) {
    const int dimension = rank - 1 - axis;
    checked.axes[axis] = axis < call.sides
                             ? checked_axis(call, axis, grad_input.shape[dimension], call.grad_output.shape[dimension])
                             : SeparableSizes{MSDA_REPLICATION_PAD, 1, 1, 1, 1, 0, false, 1};
  }
  const std::span<const int64_t> planes{shape.data(), static_cast<size_t>(leading)};
  checked.planes = std::ranges::count(planes, 0) > 0 ? 0 : elements_of(planes);
  checked.float64_inputs = call.grad_output.dtype == MSDA_FLOAT64;
  return checked;
}

}  // namespace msda::kernels
