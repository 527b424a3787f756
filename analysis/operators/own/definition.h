// What a user says that a kernel computes, bound to the tensors of one call: each element of an output is a sum of
// terms, products of input elements and a weight. A weight depends on sizes and coordinates, and may be computed of
// floating-point tensors: then it has an error of its own.
//
// Whoever implements this has checked, before an OwnCall asks: no term reads outside of a tensor, and no weight of
// sizes and coordinates is NaN, wherever the coordinates' own rounding may bring them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/model/defined_call.h"
#include "analysis/model/landing.h"
#include "analysis/operators/own/expressions.h"
#include "analysis/operators/own/schema.h"

namespace msda::analysis {

using OwnTerm = Term;
using VisitRead = std::function<void(const OwnTerm::Input&)>;

class OwnDefinition {
 public:
  virtual ~OwnDefinition() = default;

  virtual const OwnSchema& schema() const = 0;
  virtual const std::vector<NamedTensor>& inputs() const = 0;  // integers, too
  virtual Index shape_of(size_t output) const = 0;
  virtual const Coordinates& sizes() const = 0;  // by dimension
  // Returns the dimensions of a tensor's axes; -1: an axis that stays whole.
  virtual std::vector<int> axes_of(std::string_view tensor) const = 0;

  virtual Axes axes(size_t output, int64_t flat) const = 0;
  virtual Coordinate coordinate(const Axis& axis, const Precision& precision) const = 0;
  // Returns the coordinate as kernels compute it in a type.
  virtual double computed(const Axis& axis, msda_dtype type) const = 0;
  // Visits the terms in their order; what an element begins with first. In a cell that only rounding of fewer bits
  // reaches, terms that read outside of a tensor are left out. Weights have the errors of a kernel of this precision.
  virtual void terms(size_t output, int64_t flat, const OwnCells& cells, const Precision& precision,
                     const VisitTerm& visit) const = 0;
  // Visits every input element that the terms are computed of; an element may come more than once.
  virtual void reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const {
    terms(output, flat, cells, Precision::of(MSDA_FLOAT64), [&](const OwnTerm& term) {
      for (const OwnTerm::Input& input : term.inputs) visit(input);
    });
  }
  // Returns what only expressions can say; null: the definition does not consist of them.
  virtual const OwnExpressions* expressions() const { return nullptr; }
  // No fewer than all elements of an output have together.
  virtual int64_t term_count(size_t output) const = 0;
  virtual std::string name_of_term(size_t output, int64_t number) const = 0;

  // Returns the same for other inputs, in the order of inputs(); data may be null where nothing is to be computed.
  virtual std::shared_ptr<const OwnDefinition> with_inputs(std::vector<Tensor> tensors) const = 0;
};

}  // namespace msda::analysis
