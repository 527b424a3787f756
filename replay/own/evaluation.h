// Expressions on the tensors of one call, in one thread: what names mean at the moment, and the values that follow.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "analysis/numbers/bounded.h"
#include "recorder/adapters/user_operator.h"
#include "replay/own/own_call.h"
#include "replay/own/rounded.h"

namespace msda::replay {

class BoundExpressions;

// The elements of an intermediate tensor, in float64, and how far from them a kernel's may be that computes in the
// call's type, or in float64.
struct StageValues {
  analysis::Index shape;
  std::vector<double> value, error, float64_error;
  std::vector<double> computed;  // each operation rounded to the call's type, in the order of the points
};

class Evaluation {
 public:
  explicit Evaluation(const BoundExpressions& bound);
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  void set(size_t name, int64_t integer) { values_.set(name, integer); }
  void set_real(size_t name, double real) { values_.reals[name] = real; }

  // What an expression is, or why it has no value: a message, which begins with what it reads. One that reads outside
  // of a tensor has none.
  template <class T>
  using Result = std::variant<T, std::string>;
  Result<int64_t> integer(const adapters::Expression& expression) const;
  Result<analysis::Term::Input> input(const adapters::Expression& element) const;
  Result<analysis::Bounded> bounded(const adapters::Expression& expression, const analysis::Precision& precision) const;
  Result<double> computed(const adapters::Expression& expression, msda_dtype type) const;

  // Whether a condition holds for the exact values, and whether it does so wherever rounding may bring them.
  struct Holds {
    bool exactly, surely;
  };
  Result<Holds> holds(const adapters::WhereSpec& condition, const analysis::Precision& precision) const;

  // Takes down what bounded() reads from here on: inputs, and elements of stages.
  struct Reads {
    std::vector<analysis::Term::Input> inputs, stages;  // the latter by number of the stage
  };
  void take_down(Reads* reads) { reads_ = reads; }

 private:
  adapters::Expression::Value element(size_t tensor, std::span<const int64_t> at) const;
  template <class Real, class Make, class OfStage>
  Result<Real> real(const adapters::Expression& expression, const Make& make, const OfStage& of_stage) const;

  const BoundExpressions& bound_;
  NamedValues values_;
  const adapters::Expression::Values named_;
  const adapters::Expression::Elements elements_;
  mutable adapters::Expression::Stack<int64_t> at_;
  Reads* reads_ = nullptr;
};

}  // namespace msda::replay
