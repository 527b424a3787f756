// Simulated calls of grid_sample: a slice is one batch.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {

Slices GridSampleCall::slices(const CallSizes& sizes) const {
  if (sizes.heads) throw std::invalid_argument("grid_sample has no heads");
  if (sizes.queries) throw std::invalid_argument("grid_sample has no queries");
  auto slice = std::make_shared<GridSampleCall>(*this);
  slice->N = 1;
  for (Tensor* tensor : {&slice->image, &slice->locations, &slice->grad_output}) {
    tensor->data = nullptr;
    tensor->shape[0] = 1;
  }
  return {sizes.batch.value_or(N), slice};
}

// Reflection turns at pixels or between them. In mode nearest another pixel is the nearest from half an integer on, and
// neither turning nor clipping there makes it another one; grad_grid is 0.
Call::Jumps GridSampleCall::jumps() const {
  if (interpolation == MSDA_NEAREST) return {1, 0.5, true};
  return {padding == MSDA_GRID_REFLECTION ? 0.5 : 1, 0, false};
}

std::vector<int64_t> GridSampleCall::grad_output_at(const std::function<bool(const Axis&)>& is_chosen) const {
  std::vector<int64_t> chosen;
  for (int64_t sample = 0; sample < sample_count(); ++sample) {
    if (!std::ranges::any_of(axes({GridSampleGradient::kGrid, sample * axes_count, {}}), is_chosen)) continue;
    for (int64_t c = 0; c < C; ++c) chosen.push_back(output_element(sample, c));
  }
  return chosen;
}

// There is no screen: a sample has few coordinates and many channels, so that comparing every element costs little
// more.
std::vector<Arithmetic> GridSampleCall::arithmetics() const {
  return {{"float64", MSDA_MODE_FLOAT64}, {"grid_sample", MSDA_MODE_DETERMINISTIC}};
}

}  // namespace msda::analysis
