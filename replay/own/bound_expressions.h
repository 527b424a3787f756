// The expressions of an operator on the tensors and scalars of one call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "replay/own/evaluation.h"
#include "replay/own/expression_operator.h"
#include "replay/own/point_table.h"
#include "replay/own/recorded_call.h"

namespace msda::replay {

class BoundExpressions final : public OwnCall {
 public:
  // `given`: the call that it is made of, if there is one. Throws BadInput for sizes that contradict each other.
  BoundExpressions(const ExpressionOperator& op, NamedValues scalars, std::vector<size_t> present,
                   std::vector<analysis::Tensor> tensors, const analysis::Coordinates& sizes, std::string where,
                   const BoundExpressions* given = nullptr);

  analysis::Axes axes(const analysis::ElementId& id) const override;
  analysis::Coordinate coordinate(const analysis::Axis& axis, const analysis::Precision& precision) const override;
  double computed(const analysis::Axis& axis, msda_dtype type) const override;
  void terms_in(size_t output, int64_t flat, const OwnCells& cells, const analysis::Precision& precision,
                const analysis::VisitTerm& visit) const override {
    look({output, flat, cells, precision, Faults::kLeaveOut}, visit);
  }
  void reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const override;
  std::vector<OwnStageElement> stages_read(const analysis::ElementId& id) const override;
  // Returns whether the outputs are said to be derivatives: of one sum that is linear in each input that one is a
  // gradient of, or each of what it says itself.
  bool has_forward() const override;
  analysis::Loss loss_at(const analysis::ElementId& id, double x) const override;
  std::optional<size_t> moved_axis(const analysis::ElementId& id) const override;
  int64_t term_count(size_t output) const override { return visits_of(op_.op().stages.size() + output); }
  std::shared_ptr<const Call> with_tensors(std::vector<analysis::Tensor> tensors) const override;
  void check() const override;

  // --- For Evaluation and PointTable. Tensors by their numbers in the adapter, stages after them.
  const NamedValues& scalars() const { return values_; }
  bool has(size_t tensor) const { return input_of_[tensor] != kAbsent; }
  size_t input_of(size_t tensor) const { return input_of_[tensor]; }
  const std::string& tensor_name(size_t tensor) const { return op_.spec().tensors[tensor].name; }
  const analysis::NamedTensor& input(size_t number) const { return inputs_[number]; }
  size_t first_stage() const { return op_.spec().tensors.size(); }
  const StageValues& stage(size_t number) const { return stages_[number]; }
  const std::string& stage_name(size_t number) const { return op_.op().stages[number].name; }
  size_t name_of_index(size_t index) const { return op_.names().index(index); }
  bool is_of_coordinate(size_t name) const { return name >= name_of_index(op_.op().indices.size()); }
  int64_t points_in(const adapters::SumSpec& sum) const;
  void set_point(const adapters::SumSpec& sum, int64_t point, Evaluation& evaluation) const;

 private:
  static constexpr size_t kAbsent = SIZE_MAX;
  // What terms that cannot be had are.
  enum class Faults { kLeaveOut, kReport };
  // An element's terms: where its coordinates are taken to lie, and in which arithmetic weights are computed.
  struct Look {
    size_t output;
    int64_t flat;
    const OwnCells& cells;
    const analysis::Precision& precision;
    Faults faults;
    Evaluation::Reads* reads = nullptr;
    bool of_loss = false;  // of the output's loss
  };

  void take_sizes();
  void take_size(size_t index);
  void check_work(size_t sum) const;
  void find_all(const BoundExpressions* given);
  void evaluate_stage(size_t number);
  analysis::Index shape_of_sum(const adapters::SumSpec& sum) const;
  // Sums are the stages and then the outputs.
  const adapters::SumSpec& sum(size_t number) const;
  std::string_view name_of_sum(size_t number) const;
  int64_t visits_of(size_t sum) const;  // of points, for all elements together
  std::vector<int64_t> blocks_of(const adapters::SumSpec& sum) const;

  // Sets the indices of an element, and calls visit(point, holds) for each point whose conditions let it through, or
  // may do so; stops at the first fault, of a condition or that visit returns.
  template <class Visit>
  std::optional<std::string> points(size_t sum, int64_t flat, const analysis::Precision& precision,
                                    Evaluation& evaluation, const Visit& visit) const;
  std::optional<std::string> look(const Look& look, const analysis::VisitTerm& visit) const;
  std::optional<std::string> read(const adapters::AddendSpec& addend, const Look& look, Evaluation& evaluation,
                                  analysis::Term& term) const;
  void read_stage(size_t number, int64_t flat, const VisitRead& visit) const;
  std::optional<std::string> location(size_t output, size_t coordinate, const Evaluation& evaluation,
                                      analysis::Axis& axis) const;
  // Sets what a coordinate's expression is of, and returns it.
  const adapters::Expression& set_coordinate(const analysis::Axis& axis, Evaluation& evaluation) const;
  // Returns what is wrong with a term of an element, wherever rounding may bring its coordinates; nothing if all is
  // well.
  std::optional<std::string> fault_of(size_t output, int64_t flat) const;
  void set_element(const adapters::SumSpec& sum, int64_t flat, Evaluation& evaluation) const;
  // Where the loss reads an element of the input that an output is the gradient of: the element, and the number of an
  // addend of a point. Sorted.
  using LossTerms = std::vector<std::pair<int64_t, int64_t>>;
  const LossTerms& loss_terms(size_t output) const;
  analysis::Loss loss_of_output(const analysis::ElementId& id, double x) const;
  size_t loss_input(size_t output) const;

  const ExpressionOperator& op_;
  std::vector<size_t> input_of_;                           // by tensor of the adapter
  std::vector<std::shared_ptr<const PointTable>> tables_;  // by sum; null where there is none
  // By sum and condition: how many points in a row differ in no index that the condition names.
  std::vector<std::vector<int64_t>> blocks_;
  std::vector<StageValues> stages_;
  std::string stage_fault_;
  mutable std::mutex loss_mutex_;
  mutable std::map<size_t, LossTerms> loss_terms_;  // by output, made when they are asked for
};

}  // namespace msda::replay
