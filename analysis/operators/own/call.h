// A call of an operator that a user described: everything that the engine asks, answered from its definition.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/forward.h"
#include "analysis/model/hypotheses.h"
#include "analysis/operators/own/definition.h"

namespace msda::analysis {

class OwnCall final : public Call, public Forward, public Hypotheses {
 public:
  explicit OwnCall(std::shared_ptr<const OwnDefinition> definition);

  std::span<const Gradient> gradients() const override { return definition_->schema().outputs(); }
  Index shape_of(Gradient gradient) const override { return definition_->shape_of(gradient.place()); }
  std::vector<NamedTensor> inputs() const override;
  std::vector<NamedTensor> all_inputs() const override { return definition_->inputs(); }
  msda_dtype arithmetic() const override;

  Axes axes(const ElementId& id) const override { return definition_->axes(id.gradient.place(), id.flat); }
  Coordinate coordinate(const Axis& axis, const Precision& precision) const override {
    return definition_->coordinate(axis, precision);
  }
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;

  Element element(const ElementId& id, const Place& place, const Precisions& precisions, const Narrowing* narrowing,
                  Cache& cache) const override;
  Addends addends(const ElementId& id, Cache& cache) const override;
  bool has_narrow_kernels() const override {
    return true;
  }  // nobody says in which type a kernel adds 16-bit numbers up
  bool adds_to_output() const override;
  std::unique_ptr<Additions> additions(Gradient gradient) const override;

  // Counts along the channels of the element.
  int64_t weights_of(Gradient gradient, int64_t flat) const override;

  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;

  std::vector<Mistake> mistakes(const ElementId& id, const Place& place, const Element& exact,
                                const Precision& precision, Cache& cache) const override;
  Steps input_steps(Gradient) const override { return kGradOutput; }
  Steps inner_steps(Gradient) const override { return kAddends; }
  const char* name_of(Step step) const override { return step == kGradOutput ? "inputs" : Call::name_of(step); }

  std::span<const Dimension> dimensions() const override { return definition_->schema().dimensions(); }
  Coordinates sizes() const override { return definition_->sizes(); }
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override { return parts_; }

  std::shared_ptr<const Call> with_inputs(std::span<const OwnedTensor> inputs) const override;
  std::vector<Cut> cuts() const override;
  Kept kept_of(std::string_view tensor, const Kept& kept) const override;
  std::vector<int64_t> cut_indices(const ElementId& id) const override;

  bool has_forward() const override {
    return definition_->expressions() != nullptr && definition_->expressions()->has_loss();
  }
  Loss loss_at(const ElementId& id, double x) const override {
    return definition_->expressions()->loss_at(id.gradient.place(), id.flat, x);
  }

  std::optional<size_t> moved_axis(const ElementId& id) const override {
    return definition_->expressions()->moved_axis(id.gradient.place(), id.flat);
  }

  Slices slices(const CallSizes& sizes) const override;
  std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const override;

  std::string operator_name() const override { return definition_->schema().name(); }
  std::string text_of_sizes() const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;
  std::shared_ptr<const Call> outline() const override;

  const OwnDefinition& definition() const { return *definition_; }
  // For a definition of expressions.
  std::vector<OwnStageElement> stages_read(const ElementId& id) const {
    return definition_->expressions()->stages_read(id.gradient.place(), id.flat, cells_of(exact_place(id)));
  }
  // What an element adds up, each product rounded to a type, with the sample where arithmetic of that type has it.
  struct NumberedAddend {
    int64_t number;
    double value;
  };
  std::vector<NumberedAddend> addends_in(const ElementId& id, msda_dtype type) const;

 private:
  OwnCells cells_of(const Place& place) const;
  Place exact_place(const ElementId& id) const;
  // Where coordinates that are computed in this type have the sample.
  Place computed_place(const ElementId& id, msda_dtype type) const;
  std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const;

  std::shared_ptr<const OwnDefinition> definition_;
  std::vector<Part> parts_;
};

}  // namespace msda::analysis
