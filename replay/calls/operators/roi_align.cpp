#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "analysis/operators/roi_align/call.h"
#include "recorder/text/numbers.h"
#include "replay/base/errors.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

// Finite, and of a batch that there is.
void check_boxes(const analysis::RoiAlignCall& call, const std::string& where) {
  const analysis::Tensor& boxes = call.boxes;
  for (int64_t box = 0; box < boxes.shape[0]; ++box) {
    for (int64_t number = 0; number < 5; ++number) {
      const double x = boxes.at(box * 5 + number);
      if (!std::isfinite(x)) throw BadInput(fmt::format("{}: boxes[{},{}] is {}", where, box, number, x));
    }
    const double batch = boxes.at(box * 5);
    if (batch != std::floor(batch) || batch < 0 || batch >= static_cast<double>(call.input.shape[0])) {
      throw BadInput(fmt::format("{}: boxes[{},0] is {}, and input has batches 0 to {}", where, box, batch,
                                 call.input.shape[0] - 1));
    }
  }
}

// Returns why its points are too many to be looked at; empty if they are not.
std::string why_too_many(const analysis::RoiAlignCall& call) {
  const long double points = call.point_count();
  if (points <= static_cast<long double>(analysis::RoiAlignCall::kMostPoints)) return "";
  return fmt::format("the bins of the boxes have {:.3g} points; 2^22 can be examined at most",
                     static_cast<double>(points));
}

// Returns the input, or its shape alone: kernels of the backward pass are not given it.
analysis::Tensor image_of(const capture::Invocation& invocation, const std::string& where, const GetTensor& input,
                          const analysis::Tensor& grad_output) {
  if (find(invocation.inputs, "input") != nullptr) return input("input");
  const auto size = [&](const char* name) { return integer_in(invocation, name, 0, int64_t{1} << 40, where); };
  const int64_t channels = grad_output.shape.size() == 4 ? grad_output.shape[1] : 0;
  const analysis::Index shape{size("input_batch"), channels, size("input_height"), size("input_width")};
  check_result(shape, "grad_input", where);
  return {nullptr, grad_output.dtype, shape};
}

// Without its numbers of points.
std::shared_ptr<analysis::RoiAlignCall> unsized_call_of(const CallSource& source) {
  const auto& [invocation, where, input, recorded, before, reference] = source;
  auto call = std::make_shared<analysis::RoiAlignCall>();
  call->boxes = input("boxes");
  call->grad_output = input("grad_output");
  call->input = image_of(invocation, where, input, call->grad_output);
  const analysis::Index &in = call->input.shape, &boxes = call->boxes.shape, &out = call->grad_output.shape;
  if (in.size() != 4 || boxes.size() != 2 || boxes[1] != 5 || out.size() != 4) {
    throw BadInput(
        fmt::format("{}: input has shape {}, boxes {} and grad_output {}; roi_align takes input [N,C,H,W], "
                    "boxes [K,5] (batch, x1, y1, x2, y2) and grad_output [K,C,H,W]",
                    where, in, boxes, out));
  }
  check_tensor(call->input, in, "input", where);
  check_tensor(call->boxes, boxes, "boxes", where);
  check_tensor(call->grad_output, {boxes[0], in[1], out[2], out[3]}, "grad_output", where);
  for (const int64_t side : {in[2], in[3], out[2], out[3]}) {
    if (side < 1 || side > int64_t{1} << 24) {
      throw BadInput(fmt::format("{}: input has shape {} and grad_output {}: sides must be 1 to 2^24", where, in, out));
    }
  }
  const std::string scale_text = text_of(invocation, "spatial_scale");
  const auto scale = text::parse_number<double>(scale_text);
  if (!scale || !std::isfinite(*scale)) {
    throw BadInput(fmt::format("{}: spatial_scale is \"{}\"; it must be a number", where, scale_text));
  }
  if (!std::isfinite(analysis::rounded_to(*scale, call->arithmetic()))) {
    throw BadInput(fmt::format("{}: spatial_scale is \"{}\", beyond {}'s largest number", where, scale_text,
                               msda_dtype_name(call->arithmetic())));
  }
  call->spatial_scale = *scale;
  call->sampling_ratio = std::max<int64_t>(0, integer_in(invocation, "sampling_ratio", -1, 1 << 15, where));
  call->aligned = flag_of(invocation, "aligned", where);
  for (size_t axis = 0; axis < 2; ++axis) call->bins[axis] = out[3 - axis];
  check_boxes(*call, where);
  return call;
}

std::shared_ptr<const analysis::Call> load_roi_align(const CallSource& source) {
  auto call = unsized_call_of(source);
  if (const std::string why = why_too_many(*call); !why.empty())
    throw BadInput(fmt::format("{}: {}", source.where, why));
  call->take_sizes();
  return call;
}

}  // namespace

extern const OperatorLoader loader_of_roi_align{
    load_roi_align, [](const CallSource& source) { return why_too_many(*unsized_call_of(source)); }, "boxes"};

}  // namespace msda::replay
