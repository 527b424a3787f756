// The expressions of an operator on the tensors and scalars of one call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/own/expression_operator.h"
#include "replay/own/recorded_call.h"

namespace msda::replay {

class BoundExpressions final : public analysis::OwnDefinition {
 public:
  // Tensors in the order of inputs(). `sizes`: of the indices of the outputs, as they were recorded; of a call made of
  // another one, `given`, those of that one. Throws BadInput for sizes that contradict each other.
  BoundExpressions(const ExpressionOperator& op, NamedValues scalars, std::vector<analysis::Tensor> tensors,
                   const analysis::Coordinates& sizes, std::string where, const BoundExpressions* given = nullptr);

  std::span<const analysis::Gradient> outputs() const override { return op_.gradients(); }
  std::span<const analysis::Dimension> dimensions() const override { return op_.dimensions(); }
  const std::string& name() const override { return op_.name(); }

  const std::vector<analysis::NamedTensor>& inputs() const override { return inputs_; }
  analysis::Index shape_of(size_t output) const override;
  const analysis::Coordinates& sizes() const override { return sizes_; }
  std::span<const size_t> dimensions_of(size_t output) const override { return op_.op().outputs[output].index; }
  std::span<const size_t> channels_of(size_t output) const override { return op_.op().outputs[output].channels; }
  std::span<const size_t> cuts() const override { return op_.cuts(); }
  std::vector<int> axes_of(std::string_view tensor) const override;
  bool begins_with_itself(size_t output) const override { return op_.begins_with_itself(output); }

  analysis::Axes axes(size_t output, int64_t flat) const override;
  analysis::Coordinate coordinate(const analysis::Axis& axis, const analysis::Precision& precision) const override;
  double computed(const analysis::Axis& axis, msda_dtype type) const override;
  void terms(size_t output, int64_t flat, const analysis::OwnCells& cells,
             const analysis::VisitTerm& visit) const override {
    look(output, flat, cells, Faults::kLeaveOut, visit);
  }
  int64_t term_count(size_t output) const override { return points_of(output); }
  std::string name_of_term(size_t output, int64_t number) const override;
  std::shared_ptr<const OwnDefinition> with_inputs(std::vector<analysis::Tensor> tensors) const override;

  // Returns what is wrong with a term of any element, wherever rounding may bring its coordinates; nothing if all is
  // well.
  std::optional<std::string> fault(int threads) const;

 private:
  // The points of the sum's indices whose key is that of an element: where a condition says that they are equal.
  struct Join {
    size_t condition = 0, axis = 0;  // of the output's where, and of its indices
    std::vector<int64_t> begin;      // by key
    std::vector<uint32_t> points;
  };
  // What terms that cannot be had are.
  enum class Faults { kLeaveOut, kReport };

  void take_sizes(const analysis::Coordinates& sizes);
  void check_outputs(const analysis::Coordinates& recorded) const;
  void check_work() const;
  void join(size_t output);
  std::shared_ptr<const Join> sorted_by(size_t output, const adapters::Expression& key, size_t condition,
                                        size_t axis) const;
  int64_t domain_of(size_t output) const;
  int64_t points_of(size_t output) const;  // that all elements look at
  void set_point(size_t output, int64_t point, NamedValues& values) const;

  adapters::Expression::Value element(size_t tensor, std::span<const int64_t> at) const;
  std::optional<int64_t> place_in(const analysis::Tensor& tensor, std::span<const int64_t> at) const;
  std::optional<std::string> look(size_t output, int64_t flat, const analysis::OwnCells& cells, Faults faults,
                                  const analysis::VisitTerm& visit) const;
  std::optional<std::string> fault_of(size_t output, int64_t flat) const;
  friend class TermLooker;

  const ExpressionOperator& op_;
  NamedValues scalars_;  // with room for all other names
  std::vector<analysis::NamedTensor> inputs_;
  std::vector<size_t> input_of_;  // by tensor of the adapter
  analysis::Coordinates sizes_{};
  std::vector<std::shared_ptr<const Join>> joins_;  // by output; null where there is none
  std::string where_;
};

}  // namespace msda::replay
