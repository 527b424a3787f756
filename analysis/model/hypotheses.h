// Optional: what a kernel of the operator may have done instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/wrong_values.h"

namespace msda::analysis {

// A mistake that would explain a value, in words that follow "as if".
struct Mistake {
  std::string text;
  double value;  // what it would give
};

class Hypotheses {
 public:
  virtual ~Hypotheses() = default;

  // Returns the mistakes that might have given the element another value than `exact`, with its sample at `place`.
  virtual std::vector<Mistake> mistakes(const ElementId& id, const Place& place, const Element& exact,
                                        const Precision& precision, Cache& cache) const = 0;
  // Returns the mistake that wrong values show by their patterns, as words that follow "as if"; or an empty text.
  virtual std::string mistake_of(const WrongValues&) const { return {}; }
  // Returns the call under other conventions that its kernel may have followed.
  virtual std::vector<Alternative> alternatives() const { return {}; }
  // Returns whether an alternative is left out where another fits by part of its changes.
  virtual bool names_fewest_changes() const { return false; }
};

}  // namespace msda::analysis
