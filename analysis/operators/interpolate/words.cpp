// What interpolate's samples are called, what is known of kernels, and the other conventions to try.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/operators/interpolate/call.h"

namespace msda::analysis {
namespace {

// Rows before columns: the places of a pixel along the axes.
std::vector<int64_t> place_in(const Resized* sides, int axes, int64_t Resized::*size, int64_t flat) {
  std::vector<int64_t> at;
  for (int axis = 0; axis < axes; ++axis) {
    at.insert(at.begin(), flat % (sides[axis].*size));
    flat /= sides[axis].*size;
  }
  return at;
}

}  // namespace

std::vector<Convention> InterpolateCall::convention_values() const {
  std::vector<double> scales;  // that the kernel used, which may be fewer than the recorded ones
  for (int axis = 0; axis < axes_count; ++axis) scales.push_back(sides[axis].scale);
  return {{"mode", mode_name()}, {"align_corners", align_corners}, {"scales", scales}, {"for_gpu", is_for_gpu}};
}

std::string InterpolateCall::text_of_sizes() const {
  std::vector<int64_t> in, out;
  for (int axis = axes_count - 1; axis >= 0; --axis) {
    in.push_back(sides[axis].in);
    out.push_back(sides[axis].out);
  }
  return fmt::format("batch {}, channels {}, input {}, output {}, mode {}{}", N, C, fmt::join(in, " x "),
                     fmt::join(out, " x "), mode_name(), align_corners ? ", align_corners" : "");
}

std::string InterpolateCall::target_text(int64_t target) const {
  return fmt::format("pixel ({})", fmt::join(place_in(sides, axes_count, &Resized::in, target), ", "));
}

std::string InterpolateCall::sample_text(int64_t sample) const {
  return fmt::format("output pixel ({})", fmt::join(place_in(sides, axes_count, &Resized::out, sample), ", "));
}

KnownAdditions InterpolateCall::known(std::string_view) const {
  KnownAdditions known;
  known.is_exact = is_nearest() && arithmetic_of(grad_output.dtype) == grad_output.dtype;
  if (is_nearest()) {
    known.products = {"grad_output"};
    known.text =
        "PyTorch's kernels of mode nearest sum the output pixels of a pixel one after the other, without atomics";
    return known;
  }
  known.products = {mode == ResizeMode::kCubic ? "(grad_output*wy)*wx"
                    : axes_count == 3          ? "grad_output*(wx*(wy*wz))"
                    : axes_count == 2          ? "grad_output*(wx*wy)"
                                               : "grad_output*wx"};
  known.channels_apart = true;
  known.text = "PyTorch's kernels add every addend by its own atomic addition";
  return known;
}

std::vector<Alternative> InterpolateCall::alternatives() const {
  std::vector<Alternative> all;
  const auto with_scale = [](const Resized& side) { return side.scale > 0; };
  const bool has_scales = std::any_of(sides, sides + axes_count, with_scale);
  for (const ResizeMode tried_mode :
       {ResizeMode::kNearest, ResizeMode::kNearestExact, ResizeMode::kLinear, ResizeMode::kCubic}) {
    const bool nearest = tried_mode == ResizeMode::kNearest || tried_mode == ResizeMode::kNearestExact;
    for (const bool align : {false, true}) {
      for (const bool scaled : {true, false}) {
        if ((nearest && align) || (!scaled && !has_scales) || (tried_mode == ResizeMode::kCubic && axes_count != 2))
          continue;
        auto call = std::make_shared<InterpolateCall>(*this);
        call->mode = tried_mode;
        call->align_corners = align;
        call->take_sizes();
        for (int axis = 0; !scaled && axis < axes_count; ++axis) call->sides[axis].scale = 0;
        std::vector<std::string> changes;
        if (tried_mode != mode)
          changes.push_back(fmt::format("mode {} in place of {}", call->mode_name(), mode_name()));
        if (align != align_corners) {
          changes.push_back(fmt::format("align_corners {} in place of {}", align, align_corners));
        }
        if (!scaled) changes.emplace_back("the ratio of the sizes in place of the scale factor");
        if (!changes.empty()) all.push_back({fmt::format("{}", fmt::join(changes, " and ")), call});
      }
    }
  }
  return all;
}

}  // namespace msda::analysis
