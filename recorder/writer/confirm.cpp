#include "recorder/writer/confirm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/checked/call.h"
#include "kernels/names.h"

namespace msda::record {
namespace {

// Returns a tensor whose second dimension is the queries, cut to the first `queries`.
msda_tensor first_queries(msda_tensor tensor, int64_t queries) {
  tensor.shape[1] = std::min(tensor.shape[1], queries);
  return tensor;
}

// Returns the number of elements that differ from float64 by more than the tolerance of the operator's tests, or, in 16
// bits, by more than a wider one. Any recording has a few: rounding lands a sample in the next cell.
int64_t misses(const double* recorded, const std::vector<double>& exact, bool in_16_bits) {
  const double atol = in_16_bits ? 5e-2 : 1e-3, rtol = in_16_bits ? 5e-2 : 1e-2;
  int64_t count = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const bool both_nan = std::isnan(recorded[i]) && std::isnan(exact[i]);
    count += !both_nan && !(std::abs(recorded[i] - exact[i]) <= atol + rtol * std::abs(exact[i]));
  }
  return count;
}

using WrittenTensors = std::map<std::string, msda_tensor>;

std::optional<Conventions> confirm_by(int64_t queries, msda_dialect dialect, const WrittenTensors& tensors) {
  const msda_dtype type = tensors.at("value").dtype;
  const bool in_16_bits = type == MSDA_FLOAT16 || type == MSDA_BFLOAT16;
  const double kMostMissing = in_16_bits ? 1e-2 : 1e-3;
  const auto cut = [&](const char* name) { return first_queries(tensors.at(name), queries); };
  msda_call call{};
  call.dialect = dialect;
  call.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
  call.value = tensors.at("value");
  call.spatial_shapes = tensors.at("spatial_shapes");
  call.sampling_locations = cut("sampling_locations");
  call.attention_weights = cut("attention_weights");
  const msda_tensor grad_output = cut("grad_output");
  const msda_tensor locations = cut("grad_sampling_locations"), weights = cut("grad_attention_weights");
  const kernels::ContiguousInput<double> recorded_locations(locations), recorded_weights(weights);
  const auto numbers_like = [](const msda_tensor& tensor) {
    return std::vector<double>(static_cast<size_t>(kernels::elements_of(kernels::sizes_of(tensor))));
  };
  std::vector<double> exact_locations = numbers_like(locations), exact_weights = numbers_like(weights);
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
      // Fails if the dialect does not support these conventions.
      if (msda_backward(&call, &grad_output, &options, nullptr, &to_locations, &to_weights) != MSDA_OK) continue;
      const int64_t count = misses(recorded_locations.data(), exact_locations, in_16_bits) +
                            misses(recorded_weights.data(), exact_weights, in_16_bits);
      if (count < fewest) {
        fewest = count;
        best = Conventions{padding, align, type};
      } else if (best && count == fewest) {
        best->others.emplace_back(padding, align);
      }
    }
  }
  return best;
}

std::optional<Conventions> confirm_as(msda_dialect dialect, const WrittenTensors& tensors) {
  // Both gradients depend on no other query, and a few queries mostly decide.
  constexpr int64_t kFew = 64;
  const auto by_few = confirm_by(kFew, dialect, tensors);
  const int64_t all = tensors.at("sampling_locations").shape[1];
  return (by_few && by_few->are_only_ones()) || all <= kFew ? by_few : confirm_by(all, dialect, tensors);
}

// Returns whether the tensors have the operator's ranks; the operator checks the rest.
bool are_of_a_call(const WrittenTensors& tensors) {
  struct Ranked {
    const char* name;
    int rank;
    const char* like = nullptr;
  };
  return std::ranges::all_of(std::initializer_list<Ranked>{{"value", 4},
                                                           {"spatial_shapes", 2},
                                                           {"sampling_locations", 6},
                                                           {"attention_weights", 5},
                                                           {"grad_output", 4},
                                                           {"grad_sampling_locations", 6, "sampling_locations"},
                                                           {"grad_attention_weights", 5, "attention_weights"}},
                             [&](const Ranked& ranked) {
                               const auto found = tensors.find(ranked.name);
                               if (found == tensors.end() || found->second.rank != ranked.rank) return false;
                               return ranked.like == nullptr ||
                                      std::ranges::equal(found->second.shape, tensors.at(ranked.like).shape);
                             });
}

}  // namespace

std::string Conventions::all() const {
  const auto words = [](msda_padding kind, bool is_aligned) {
    return std::string(msda_padding_name(kind)) + (is_aligned ? " align_corners" : "");
  };
  std::string text = words(padding, align_corners);
  for (const auto& [kind, is_aligned] : others) text += ", " + words(kind, is_aligned);
  return text;
}

std::optional<Conventions> confirm(msda_dialect dialect, const WrittenTensors& tensors) {
  if (!are_of_a_call(tensors) || !kernels::is_float(tensors.at("grad_sampling_locations").dtype) ||
      !kernels::is_float(tensors.at("grad_attention_weights").dtype)) {
    return std::nullopt;
  }
  const msda_dtype type = tensors.at("value").dtype;
  if (type != MSDA_FLOAT16) return confirm_as(dialect, tensors);
  WrittenTensors as_bfloat16 = tensors;
  for (auto& [name, tensor] : as_bfloat16) {
    if (tensor.dtype == MSDA_FLOAT16) tensor.dtype = MSDA_BFLOAT16;
  }
  const auto with_float16 = confirm_as(dialect, tensors), with_bfloat16 = confirm_as(dialect, as_bfloat16);
  return with_float16 && with_bfloat16 ? std::nullopt : with_float16 ? with_float16 : with_bfloat16;  // zeros fit both
}

}  // namespace msda::record
