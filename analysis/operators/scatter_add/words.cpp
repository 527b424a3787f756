// Where an element of scatter_add's sum lies, what is known of kernels, and the mistakes that they make.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/operators/scatter_add/call.h"

namespace msda::analysis {
namespace {

const char* reduction_name(bool mean) { return mean ? "mean" : "sum"; }

}  // namespace

Coordinates ScatterAddCall::sizes() const { return {outer_, dim_size, inner_}; }

Coordinates ScatterAddCall::coordinates_of(Gradient, int64_t flat) const {
  return {flat / inner_ / dim_size, flat / inner_ % dim_size, flat % inner_};
}

std::span<const Call::Part> ScatterAddCall::parts() const {
  static const Part kParts[] = {
      {}, {ScatterAddDimension::kChannel}, {ScatterAddDimension::kRow}, {ScatterAddDimension::kOuter}};
  return kParts;
}

std::vector<Convention> ScatterAddCall::convention_values() const {
  return {{"dim", dim},
          {"reduce", reduction_name(mean)},
          {"include_self", include_self},
          {"wraps_negative", wraps},
          {"scale_grad_by_freq", by_frequency},
          {"has_padding_idx", padding.has_value()},
          {"padding_idx", padding.value_or(0)}};
}

std::string ScatterAddCall::text_of_sizes() const {
  const std::string outer = outer_ == 1 ? "" : fmt::format("{} times ", outer_);
  return fmt::format("{}{} source rows of {} channels into {} rows, {}, {}", outer, rows_, inner_, dim_size,
                     by_rows_ ? "an index for each row" : "an index for each element", reduction_name(mean));
}

std::vector<std::string> ScatterAddCall::text_of_place(Gradient gradient, int64_t flat) const {
  const Coordinates at = coordinates_of(gradient, flat);
  std::vector<std::string> texts;
  if (outer_ > 1) texts.push_back(text_of(ScatterAddDimension::kOuter, at[0]));
  texts.push_back(text_of(ScatterAddDimension::kRow, at[1]));
  texts.push_back(text_of(ScatterAddDimension::kChannel, at[2]));
  return texts;
}

std::string ScatterAddCall::target_text(int64_t target) const {
  return fmt::format("row {}", by_rows_ ? target : target / inner_ % dim_size);
}

std::string ScatterAddCall::sample_text(int64_t sample) const {
  if (by_rows_) return fmt::format("source row {}", sample);
  return fmt::format("source [{}]", fmt::join(values.index_of(sample), ","));
}

KnownAdditions ScatterAddCall::known(std::string_view kernel) const {
  const auto is_of = [&](auto... parts) { return ((kernel.find(parts) != kernel.npos) || ...); };
  KnownAdditions known;
  known.products = {by_frequency ? "source*share" : "source"};
  known.is_exact = !by_frequency && arithmetic_of(values.dtype) == values.dtype;
  if (is_of("embedding_backward_feature", "compute_grad_weight", "sum_and_scatter")) {
    known.one_at_a_time = false;
    known.is_exact = false;
    known.text = "PyTorch's embedding backward sums rows of one index before it adds them";
  } else if (is_of("indexing_backward_kernel_stride_1", "indexing_backward_kernel_small_stride",
                   "indexing_backward_kernel_many_indices")) {
    known.one_at_a_time = false;
    known.is_exact = false;
    known.text = "PyTorch's index_put of rows of few elements sums those of one index before it adds them";
  } else if (is_of("indexing_backward")) {
    known.text = "PyTorch's index_put sorts the indices, and adds the rows of each index one after the other";
  } else {
    known.channels_apart = true;
    known.text = "PyTorch's kernels add every element by its own atomic addition";
  }
  return known;
}

std::vector<Mistake> ScatterAddCall::first_mistakes(const ElementId& id, const Element& exact) const {
  const auto at = to_.at(id.flat);
  std::vector<Mistake> mistakes;
  const auto sources = static_cast<double>(count(at.place));
  const double divided = addends_in(at.place);
  if (mean && divided != 1) {
    mistakes.push_back({"the sum were not divided", exact.value * divided});
    if (include_self) {
      mistakes.push_back({"what it held before were not counted", exact.value * divided / sources});
    } else {
      mistakes.push_back({"what it held before were counted", exact.value * sources / (sources + 1)});
    }
  }
  if (!mean && sources > 1)
    mistakes.push_back({"the sum were divided by the number of its addends", exact.value / sources});
  if (padding) {
    double left_out = 0;
    for (int64_t from_place = 0; from_place < from_.places(); ++from_place) {
      const bool is_here = target_of(from_place) < 0 && named_target(from_place) == at.place;
      if (is_here) left_out += values.at(from_.flat({from_place, at.channel}));
    }
    mistakes.push_back({"rows of padding_idx were added", exact.value + left_out});
  }
  return mistakes;
}

std::vector<Alternative> ScatterAddCall::alternatives() const {
  std::vector<Alternative> all;
  const auto add = [&](const std::string& text, auto&& change) {
    auto changed = std::make_shared<ScatterAddCall>(*this);
    change(*changed);
    changed->take_sizes();
    all.push_back({text, std::move(changed)});
  };
  add(fmt::format("reduce {} in place of {}", reduction_name(!mean), reduction_name(mean)),
      [](ScatterAddCall& call) { call.mean = !call.mean; });
  add(fmt::format("include_self {} in place of {}", !include_self, include_self),
      [](ScatterAddCall& call) { call.include_self = !call.include_self; });
  add(fmt::format("scale_grad_by_freq {} in place of {}", !by_frequency, by_frequency),
      [](ScatterAddCall& call) { call.by_frequency = !call.by_frequency; });
  if (padding) add("no padding_idx", [](ScatterAddCall& call) { call.padding.reset(); });
  return all;
}

}  // namespace msda::analysis
