#include "recorder/writer/confirm.h"

#include <cmath>
#include <vector>

namespace msda::record {
namespace {

int64_t elements(const msda_tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

double at(const msda_tensor& tensor, int64_t i) {
  return tensor.dtype == MSDA_FLOAT64 ? static_cast<const double*>(tensor.data)[i]
                                      : double{static_cast<const float*>(tensor.data)[i]};
}

// Elements that are not what float64 gives, by the tolerance of the operator's tests. A few are in any recording, where
// rounding lands a sample in the next cell.
int64_t misses(const msda_tensor& recorded, const std::vector<double>& exact) {
  int64_t count = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double value = at(recorded, static_cast<int64_t>(i));
    const bool both_nan = std::isnan(value) && std::isnan(exact[i]);
    count += !both_nan && !(std::abs(value - exact[i]) <= 1e-3 + 1e-2 * std::abs(exact[i]));
  }
  return count;
}

}  // namespace

std::optional<Conventions> confirm(msda_dialect dialect, const std::map<std::string, msda_tensor>& tensors) {
  constexpr double kMostMissing = 1e-3;
  msda_call call{};
  call.dialect = dialect;
  call.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
  for (const char* name : {"value", "spatial_shapes", "sampling_locations", "attention_weights", "grad_output",
                           "grad_sampling_locations", "grad_attention_weights"}) {
    if (!tensors.contains(name)) return std::nullopt;
  }
  call.value = tensors.at("value");
  call.spatial_shapes = tensors.at("spatial_shapes");
  call.sampling_locations = tensors.at("sampling_locations");
  call.attention_weights = tensors.at("attention_weights");
  const msda_tensor& locations = tensors.at("grad_sampling_locations");
  const msda_tensor& weights = tensors.at("grad_attention_weights");
  for (const msda_tensor* tensor : {&locations, &weights}) {
    if (tensor->dtype != MSDA_FLOAT32 && tensor->dtype != MSDA_FLOAT64) return std::nullopt;
  }
  std::vector<double> exact_locations(static_cast<size_t>(elements(locations))),
      exact_weights(static_cast<size_t>(elements(weights)));
  const msda_tensor to_locations =
      msda_contiguous(exact_locations.data(), MSDA_FLOAT64, locations.rank, locations.shape);
  const msda_tensor to_weights = msda_contiguous(exact_weights.data(), MSDA_FLOAT64, weights.rank, weights.shape);
  const msda_options options{MSDA_MODE_FLOAT64, 0, 0, 0};
  const auto most =
      static_cast<int64_t>(kMostMissing * static_cast<double>(exact_locations.size() + exact_weights.size()));
  std::optional<Conventions> best;
  int64_t fewest = most + 1;
  for (const bool align : {false, true}) {
    for (const msda_padding padding : {MSDA_PADDING_ZEROS, MSDA_PADDING_BORDER}) {
      call.padding = padding;
      call.align_corners = align;
      // Only a dialect that has these conventions takes them.
      if (msda_backward(&call, &tensors.at("grad_output"), &options, nullptr, &to_locations, &to_weights) != MSDA_OK) {
        continue;
      }
      const int64_t count = misses(locations, exact_locations) + misses(weights, exact_weights);
      if (count < fewest) {
        fewest = count;
        best = Conventions{padding, align, true};
      } else if (best && count == fewest) {
        best->only_ones = false;
      }
    }
  }
  return best;
}

}  // namespace msda::record
