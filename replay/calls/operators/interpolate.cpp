#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "analysis/operators/interpolate/call.h"
#include "recorder/text/numbers.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

constexpr int64_t kMostSide = int64_t{1} << 24;  // beyond it, float32 has no coordinate for each pixel
constexpr const char* kAxes[] = {"width", "height", "depth"};

// Returns the scale factor that was given for an axis; 0 if none was.
double scale_of(const capture::Invocation& invocation, int axis, const std::string& where) {
  const std::string name = fmt::format("scale_{}", kAxes[axis]), text = text_of(invocation, name.c_str());
  if (text.empty()) return 0;
  const auto scale = text::parse_number<double>(text);
  if (!scale || !(*scale > 0) || !std::isfinite(*scale)) {
    throw BadInput(fmt::format("{}: {} is \"{}\"; it must be a number above 0", where, name, text));
  }
  return *scale;
}

std::shared_ptr<const analysis::Call> load_interpolate(const CallSource& source) {
  const auto& [invocation, where, input, recorded, before, reference] = source;
  auto call = std::make_shared<analysis::InterpolateCall>();
  call->grad_output = input("grad_output");
  const analysis::Index& shape = call->grad_output.shape;
  check_tensor(call->grad_output, shape, "grad_output", where);
  if (shape.size() < 3 || shape.size() > 5) {
    throw BadInput(fmt::format("{}: grad_output has shape {}; interpolate takes [N,C,(D,)(H,)W]", where, shape));
  }
  const int axes = static_cast<int>(shape.size()) - 2;
  const std::string name = text_of(invocation, "mode");
  const auto mode = analysis::resize_mode_named(name, axes);
  if (!mode) {
    throw BadInput(
        fmt::format("{}: unknown mode \"{}\" of {}; there are nearest, nearest-exact, linear (in "
                    "1D), bilinear and bicubic (in 2D) and trilinear (in 3D)",
                    where, name, text::counted(axes, "dimension")));
  }
  call->mode = *mode;
  call->align_corners = flag_of(invocation, "align_corners", false, where);
  if (call->is_nearest() && call->align_corners) {
    throw BadInput(fmt::format("{}: align_corners with mode {}, which does not have it", where, name));
  }
  for (int axis = 0; axis < axes; ++axis) {
    const std::string of_side = fmt::format("input_{}", kAxes[axis]);
    const int64_t out = shape[shape.size() - 1 - static_cast<size_t>(axis)];
    call->sides[axis] = {integer_in(invocation, of_side.c_str(), 1, kMostSide, where), out,
                         scale_of(invocation, axis, where)};
    if (out < 1 || out > kMostSide) {
      throw BadInput(fmt::format("{}: grad_output has shape {}: its sides must be 1 to 2^24", where, shape));
    }
  }
  call->take_sizes();
  check_result(call->shape_of(call->gradient()), "grad_input", where);
  const auto fitting = [&](const analysis::Tensor& tensor) {
    const bool fits = tensor && tensor.shape == call->shape_of(call->gradient());
    return fits ? tensor : analysis::Tensor{};
  };
  return call->with_heeded_scales(
      invocation.facts.kernel,
      {fitting(recorded("grad_input")), fitting(before("grad_input")), fitting(reference("grad_input"))});
}

}  // namespace

extern const OperatorLoader loader_of_interpolate{load_interpolate};

}  // namespace msda::replay
