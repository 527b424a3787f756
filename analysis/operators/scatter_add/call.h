// Sums of the rows, or the elements, of a tensor that share an index: PyTorch's index_add, scatter_add, scatter_reduce
// (sum and mean), index_put with accumulate, and the backward passes of embedding, index_select and gather.
//
// `index` has one dimension, and names a row of `sum` for each row of `source` along `dim`; or it has the shape of
// `source`, and names for each of its elements the place in `sum` along `dim`.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {

struct ScatterAddGradient {
  static constexpr Gradient::Description kDescriptions[] = {{"sum", 0, true}};
  static constexpr auto kAll = described<Gradient>(kDescriptions);
};

struct ScatterAddDimension {
  // A row is a place along `dim`; the dimensions before it and those after it are one each.
  static constexpr Dimension::Description kDescriptions[] = {
      {"outer", 0, false, false}, {"row", 1, false, false}, {"channel", 2, false, false}};
  static constexpr auto kAll = described<Dimension>(kDescriptions);
  static constexpr Dimension kOuter = kAll[0], kRow = kAll[1], kChannel = kAll[2];
};

// Shapes fit each other, and no index lies outside; take_sizes() has been called.
struct ScatterAddCall final : ScatterCall {
  int64_t dim = 0, dim_size = 0;
  bool mean = false;
  bool include_self = true;        // the sum begins with what it held
  bool wraps = false;              // a negative index counts from the end
  bool by_frequency = false;       // each row is divided by how many have its index
  std::optional<int64_t> padding;  // rows of this index are left out
  Tensor index, values, self;      // `values` is the input `source`; `self` is what the sum held, if anything
  std::shared_ptr<const OwnedTensor> unsorted;  // keeps an index that was recorded in another order

  std::span<const Gradient> gradients() const override { return ScatterAddGradient::kAll; }
  Index shape_of(Gradient) const override;
  std::vector<NamedTensor> inputs() const override;
  std::vector<NamedTensor> all_inputs() const override;

  const Tensor& source() const override { return values; }
  KnownAdditions known(std::string_view kernel) const override;
  void send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const override;
  void send_exactly(int64_t source, const Precision& coordinates, int way, const VisitExact& visit) const override;
  Precision coordinate_precision(const Precision&) const override { return Precision::of(MSDA_FLOAT64); }
  std::optional<double> held(int64_t flat) const override;
  double start(int64_t flat, double) const override { return held(flat).value_or(0); }
  double divisor(int64_t flat, const Place& place) const override;

  // PyTorch's kernels for GPUs count the addends of a mean of 16-bit tensors in the tensor's type: the count stops
  // where the next number does not fit. Then an element has an axis without cells: it lands by one count, or by the
  // other.
  Axes axes(const ElementId& id) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype type) const override;
  std::string target_text(int64_t target) const override;
  std::string sample_text(int64_t sample) const override;
  std::vector<Mistake> first_mistakes(const ElementId& id, const Element& exact) const override;
  std::vector<Alternative> alternatives() const override;
  bool adds_to_output() const override { return include_self; }

  std::span<const Dimension> dimensions() const override { return ScatterAddDimension::kAll; }
  Coordinates sizes() const override;
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override;

  std::vector<Cut> cuts() const override;
  std::vector<int> cuts_of(std::string_view tensor) const override;
  std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const override;

  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;

  std::string operator_name() const override { return "scatter_add"; }
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;

  void take_sizes();

 private:
  // Returns the target that a place of the source names, and -1 for one that is left out.
  int64_t named_target(int64_t source) const;
  int64_t target_of(int64_t source) const;
  // Returns the largest that a count in the tensor's type reaches by adding 1.
  double most_counted() const { return std::ldexp(1.0, Precision::of(values.dtype).bits); }
  int64_t count(int64_t target) const { return (*counts_)[static_cast<size_t>(target)]; }
  // How many addends the sum of a target is divided by.
  double addends_in(int64_t target) const;
  bool keeps_self(int64_t target) const { return include_self || count(target) == 0; }

  bool by_rows_ = true;
  int64_t outer_ = 1, rows_ = 0, inner_ = 1;            // of the source: before `dim`, along it, after it
  std::shared_ptr<const std::vector<int64_t>> counts_;  // of the sources of each target
};

}  // namespace msda::analysis
