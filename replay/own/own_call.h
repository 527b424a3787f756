// A call of an operator that a user described: everything that the engine asks but the terms and their coordinates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/model/defined_call.h"
#include "replay/own/recorded_call.h"

namespace msda::replay {

// Where an element's coordinate is taken to lie: exact arithmetic's cell or one beside it, and the distance from it.
struct OwnCell {
  int32_t cell;
  double fraction;
};
using OwnCells = boost::container::static_vector<OwnCell, 3>;

// An element of an intermediate tensor, "z" at "r 3".
struct OwnStageElement {
  std::string stage, place;
  double value, computed;  // in float64; each operation rounded to the call's arithmetic
};

class DescribedOperator;

class OwnCall : public analysis::DefinedCall {
 public:
  // --- What expressions or a library say. Checks all terms: no term reads outside of a tensor, and no weight of sizes
  // and coordinates is NaN, wherever the coordinates' own rounding may bring them. Throws BadInput.
  virtual void check() const = 0;
  // Visits the terms in their order; what an element begins with first. In a cell that only rounding of fewer bits
  // reaches, terms that read outside of a tensor are left out. Weights have the errors of a kernel of this precision,
  // but for those of the coordinates.
  virtual void terms_in(size_t output, int64_t flat, const OwnCells& cells, const analysis::Precision& precision,
                        const analysis::VisitTerm& visit) const = 0;
  using VisitRead = std::function<void(const analysis::Term::Input&)>;
  // Visits every input element that the terms are computed of; an element may come more than once.
  virtual void reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const;
  // Returns the coordinate as kernels compute it in a type.
  virtual double computed(const analysis::Axis& axis, msda_dtype type) const = 0;
  // No fewer than all elements of an output have together.
  virtual int64_t term_count(size_t output) const = 0;
  // Returns the elements of intermediate tensors that an element's terms read, the first ones of many.
  virtual std::vector<OwnStageElement> stages_read(const analysis::ElementId&) const { return {}; }
  bool has_forward() const override { return false; }
  analysis::Loss loss_at(const analysis::ElementId&, double) const override { return {}; }

  // --- What follows from it.
  std::span<const analysis::Gradient> gradients() const override;
  analysis::Index shape_of(analysis::Gradient gradient) const override;
  std::vector<analysis::NamedTensor> inputs() const override;
  std::vector<analysis::NamedTensor> all_inputs() const override { return inputs_; }
  msda_dtype arithmetic() const override;
  bool adds_to_output() const override;
  // Nobody says in which type a kernel adds 16-bit numbers up.
  bool has_narrow_kernels() const override { return true; }
  bool begins_with_itself(analysis::Gradient gradient) const;
  const DescribedOperator& described() const { return described_; }

  analysis::Landings landings(const analysis::Axis& axis, const analysis::Precision& precision) const override;
  std::vector<analysis::Evaluation> evaluations(const analysis::Axis& axis, msda_dtype arithmetic) const override;

  double number(const analysis::Term::Input& input) const override {
    return inputs_[input.tensor].tensor.at(input.flat);
  }
  void terms(const analysis::ElementId& id, const analysis::Place& place, const analysis::Precisions& precisions,
             analysis::Cache& cache, const analysis::VisitTerm& visit) const override;
  void computed_terms(const analysis::ElementId& id, analysis::Cache& cache,
                      const analysis::VisitTerm& visit) const override;
  std::shared_ptr<const analysis::Additions> additions(analysis::Gradient gradient) const override;
  std::string name_of_term(analysis::Gradient gradient, int64_t number) const;  // "r 3, addend 1"
  std::string text_of_term(analysis::Gradient gradient, int64_t number) const override;
  std::vector<analysis::Mistake> last_mistakes(const analysis::ElementId& id, analysis::Cache& cache) const override;

  // Counts along the channels of the element.
  int64_t weights_of(analysis::Gradient gradient, int64_t flat) const override;
  bool visit_inputs(const analysis::ElementId& id, const analysis::Place& place, const analysis::Precision& precision,
                    analysis::Cache& cache, const VisitInput& visit) const override;
  analysis::Steps inner_steps(analysis::Gradient) const override { return analysis::kAddends; }
  const char* name_of(analysis::Step step) const override;

  std::span<const analysis::Dimension> dimensions() const override;
  analysis::Coordinates sizes() const override { return sizes_; }
  analysis::Coordinates coordinates_of(analysis::Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override { return parts_; }
  std::vector<analysis::Cut> cuts() const override;
  std::vector<int> cuts_of(std::string_view tensor) const override;

  std::string operator_name() const override;
  std::string text_of_sizes() const override;
  std::vector<std::string> text_of_place(analysis::Gradient gradient, int64_t flat) const override;

 protected:
  // `present`: which of the operator's inputs the call has, and `tensors` in their order. `sizes`: by dimension, of
  // those that the outputs have, as they were recorded, or those of another call.
  OwnCall(const DescribedOperator& described, NamedValues values, std::vector<size_t> present,
          std::vector<analysis::Tensor> tensors, const analysis::Coordinates& sizes, std::string where);
  // Throws BadInput if outputs of these sizes, in which `dimensions` says what they are of, have another shape.
  void check_outputs(const analysis::Coordinates& recorded, const char* dimensions) const;
  // Returns the cells that the coordinates of an element may lie in, in the arithmetic of the call; the exact ones
  // first. One empty entry for elements without coordinates.
  std::vector<OwnCells> reachable_cells(size_t output, int64_t flat) const;
  OwnCells cells_of(const analysis::Place& place) const;
  analysis::Place exact_place(const analysis::ElementId& id) const;
  // Returns where coordinates that are computed in this type have the sample.
  analysis::Place computed_place(const analysis::ElementId& id, msda_dtype type) const;

  NamedValues values_;
  std::vector<size_t> present_;  // tensors of the adapter, in the order of inputs_
  std::vector<analysis::NamedTensor> inputs_;
  analysis::Coordinates sizes_;
  std::string where_;  // for messages

 private:
  const DescribedOperator& described_;
  std::vector<Part> parts_;
};

}  // namespace msda::replay
