// A call whose elements are sums of terms: what an operator says of its terms, and what follows from it.
//
//     gradient[element] = (held + sum over terms of weight * product of input elements) / divisor
//
// Whoever implements this has checked the inputs: no term reads outside of a tensor, wherever rounding may bring its
// coordinates.
#pragma once

#include <boost/container/static_vector.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/forward.h"
#include "analysis/model/hypotheses.h"

namespace msda::analysis {

// The weight depends on sizes and coordinates, and may be computed of floating-point tensors.
struct Term {
  struct Input {
    size_t tensor;  // the operator's own number
    int64_t flat;
  };
  boost::container::static_vector<Input, 4> inputs;
  double weight = 1;
  double error = 0;        // how far a kernel's weight may be from it
  double computed = 1;     // the weight as kernels compute it, each operation rounded; if exact, not yet rounded
  int64_t number = 0;      // text_of_term() names it; adjacent terms of one number are lost and added together
  bool is_signed = false;  // the weight has its sign, whatever the error
  bool may_split =
      false;  // kernels may add it in parts of any weights, 0 included; they may leave one without sign out

  double sign() const { return is_signed ? weight : Uncertain{weight, error}.sign(); }
};
using VisitTerm = std::function<void(const Term&)>;

class DefinedCall : public Call, public Forward, public Hypotheses {
 public:
  // --- What an operator says of itself.
  virtual double number(const Term::Input& input) const = 0;
  // Visits the terms of an element in exact arithmetic, in their order, with the errors of a kernel of these
  // precisions.
  virtual void terms(const ElementId& id, const Place& place, const Precisions& precisions, Cache& cache,
                     const VisitTerm& visit) const = 0;
  // Visits them as our own replays add them: inputs, `computed` and `number` alone.
  virtual void computed_terms(const ElementId& id, Cache& cache, const VisitTerm& visit) const = 0;
  // Returns what is in the gradient without any term; nothing: 0, to which a kernel need not add.
  virtual std::optional<double> held(int64_t /*flat*/) const { return std::nullopt; }
  virtual double divisor(int64_t /*flat*/, const Place&) const { return 1; }
  virtual bool weights_change_sign() const { return false; }
  virtual std::string text_of_term(Gradient gradient, int64_t number) const = 0;  // "the addend of r 3"
  // Mistakes that only this operator's kernels make: those to try before all others, and after them.
  virtual std::vector<Mistake> first_mistakes(const ElementId&, const Element& /*exact*/) const { return {}; }
  virtual std::vector<Mistake> last_mistakes(const ElementId&, Cache&) const { return {}; }

  // --- What follows from it.
  Element element(const ElementId& id, const Place& place, const Precisions& precisions, const Narrowing* narrowing,
                  Cache& cache) const override;
  Addends addends(const ElementId& id, Cache& cache) const override;
  std::vector<Mistake> mistakes(const ElementId& id, const Place& place, const Element& exact,
                                const Precision& precision, Cache& cache) const override;
  Steps input_steps(Gradient) const override { return kGradOutput; }
};

}  // namespace msda::analysis
