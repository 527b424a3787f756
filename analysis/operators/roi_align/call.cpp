#include "analysis/operators/roi_align/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "analysis/operators/scatter/table.h"

namespace msda::analysis {

void RoiAlignCall::take_sizes() {
  N = input.shape[0];
  C = input.shape[1];
  K = boxes.shape[0];
  for (size_t axis = 0; axis < 2; ++axis) {
    sides[axis] = input.shape[3 - axis];
    bins[axis] = grad_output.shape[3 - axis];
  }
  set_layouts({1, K, C, bins_of_box(), 1}, {1, N, C, sides[0] * sides[1], 1},
              {"bin", {"y0,x0", "y0,x1", "y1,x0", "y1,x1"}, {"wx", "wy", "share"}, "count"});
  auto first = std::make_shared<std::vector<int64_t>>(1, 0);
  for (int64_t box = 0; boxes && box < K; ++box) {
    first->push_back(first->back() + points_of(box, 0, arithmetic()) * points_of(box, 1, arithmetic()) * bins_of_box());
  }
  first_point_ = std::move(first);
  ways_ = find_ways();
}

std::vector<NamedTensor> RoiAlignCall::inputs() const {
  std::vector<NamedTensor> all{{"grad_output", grad_output}, {"boxes", boxes}};
  if (input) all.push_back({"input", input});
  return all;
}

bool RoiAlignCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                                const VisitInput& visit) const {
  const ScatterTable& table = tables().exact(*this, precision, way_of(place));
  for (const auto& entry : table.entries(to_.at(id.flat).place)) {
    for (int64_t number = 0; number < 5; ++number) {
      if (visit("boxes", boxes, bin_of(entry.source).box * 5 + number)) return true;
    }
  }
  return ScatterCall::visit_inputs(id, place, precision, cache, visit);
}

std::vector<Cut> RoiAlignCall::cuts() const { return {{"box", "K", K}, {"channel", "C", C}}; }

std::vector<int> RoiAlignCall::cuts_of(std::string_view tensor) const {
  if (tensor == "boxes") return {0, -1};
  return {tensor == "grad_output" ? 0 : -1, 1, -1, -1};
}

std::shared_ptr<const Call> RoiAlignCall::with_tensors(std::vector<Tensor> tensors) const {
  auto call = std::make_shared<RoiAlignCall>(*this);
  call->grad_output = tensors[0];
  call->boxes = tensors[1];
  call->input.shape[1] = call->grad_output.shape[1];
  if (tensors.size() > 2) call->input = tensors[2];
  call->take_sizes();
  return call;
}

bool RoiAlignCall::admits(std::span<const OwnedTensor> given) const {
  RoiAlignCall call = *this;
  call.boxes = tensor_named(given, "boxes").view();
  for (int64_t at = 0; at < call.boxes.elements(); ++at) {
    const double x = call.boxes.at(at);
    const bool is_batch = at % 5 == 0;
    if (!std::isfinite(x) || (is_batch && (x != std::floor(x) || x < 0 || x >= static_cast<double>(N)))) return false;
  }
  return call.point_count() <= static_cast<long double>(kMostPoints);
}

Slices RoiAlignCall::slices(const CallSizes& given) const {
  if (given.batch || given.heads || given.queries) {
    throw std::invalid_argument("roi_align is simulated with its own boxes, and so with its own sizes");
  }
  return DefinedCall::slices(given);
}

std::shared_ptr<const Call> RoiAlignCall::with_values(std::span<const Tensor> values) const {
  std::vector<Tensor> tensors{values[0], boxes};
  if (input) tensors.push_back(input);
  return with_tensors(std::move(tensors));
}

std::vector<Convention> RoiAlignCall::convention_values() const {
  return {
      {"spatial_scale", std::vector<double>{spatial_scale}}, {"sampling_ratio", sampling_ratio}, {"aligned", aligned}};
}

std::string RoiAlignCall::text_of_sizes() const {
  return fmt::format("batch {}, channels {}, input {} x {}, {} boxes of {} x {} bins, {}", N, C, sides[1], sides[0], K,
                     bins[1], bins[0],
                     sampling_ratio > 0 ? fmt::format("sampling_ratio {}", sampling_ratio) : "adaptive sampling");
}

std::string RoiAlignCall::target_text(int64_t target) const {
  const int64_t pixel = target % to_.minor;
  return fmt::format("pixel ({}, {})", pixel / sides[0], pixel % sides[0]);
}

std::string RoiAlignCall::sample_text(int64_t sample) const {
  const Bin bin = bin_of(source_of(sample));
  const int64_t first = (*first_point_)[static_cast<size_t>(bin.box)];
  const int64_t columns = points_of(bin.box, 0, arithmetic()), rows = points_of(bin.box, 1, arithmetic());
  const int64_t point = (sample - first) % (columns * rows);
  return fmt::format("box {}, bin ({}, {}), point ({}, {})", bin.box, bin.at[1], bin.at[0], point / columns,
                     point % columns);
}

KnownAdditions RoiAlignCall::known(std::string_view) const {
  KnownAdditions known;
  known.products = {"(grad_output*(wx*wy))/count"};
  known.channels_apart = true;
  known.text = "torchvision's kernel adds every addend by its own atomic addition";
  return known;
}

std::vector<Alternative> RoiAlignCall::alternatives() const {
  constexpr long double kFewPoints = 1 << 20;
  std::vector<Alternative> all;
  const std::set<int64_t> ratios{sampling_ratio, 0, 1, 2, 3, 4};
  for (const bool align : {aligned, !aligned}) {
    for (const int64_t ratio : ratios) {
      const bool again = ratio == sampling_ratio;
      if (again && align == aligned) continue;
      auto call = std::make_shared<RoiAlignCall>(*this);
      call->aligned = align;
      call->sampling_ratio = ratio;
      // Each is computed anew: those that take no longer than the recorded one, or hardly any time.
      if (call->point_count() > std::max<long double>(kFewPoints, 2 * point_count())) continue;
      call->take_sizes();
      std::vector<std::string> changes;
      if (align != aligned) changes.push_back(fmt::format("aligned {} in place of {}", align, aligned));
      if (!again) changes.push_back(fmt::format("sampling_ratio {} in place of {}", ratio, sampling_ratio));
      all.push_back({fmt::format("{}", fmt::join(changes, " and ")), std::move(call)});
    }
  }
  return all;
}

}  // namespace msda::analysis
