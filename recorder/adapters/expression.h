// Expressions of user adapters, such as "grid.x * block.x / 32": numbers, names, + - * / % and parentheses; in
// conditions also one comparison. Computed in int64, checked: an expression has its mathematical value or none.
//
// Expressions of an operator (user_operator.h) may also hold elements of tensors, "x[row[r], c]", and, where real
// numbers are meant, decimals, functions, and int(EXPRESSION), an expression of integers. real() computes in a type of
// the caller's, in which a bound on rounding may ride along.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recorder/adapters/adapter.h"

namespace msda::adapters {

// An invalid expression; the message says what is wrong, and where.
struct BadExpression : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Expression {
 public:
  using Value = std::variant<int64_t, Refusal>;
  // Returns the value of a name in an expression, by the index that the name was given when the text was read.
  using Values = std::function<Value(size_t name)>;
  // Returns the index of a name; throws BadExpression for an unknown name.
  using Names = std::function<size_t(std::string_view name)>;

  // Returns the number of a tensor that must have as many dimensions; throws BadExpression for another one.
  using Tensors = std::function<size_t(std::string_view name, size_t rank)>;
  // Returns an element of a tensor by its number.
  using Elements = std::function<Value(size_t tensor, std::span<const int64_t> at)>;
  enum class Numbers { kIntegers, kReals };
  // Few expressions need memory for what they compute on the way.
  template <class Number>
  using Stack = boost::container::small_vector<Number, 16>;

  // Functions, by their places here: all are of real numbers, the last three also of integers.
  static constexpr std::string_view kFunctions[] = {"exp", "sqrt", "abs", "min", "max"};
  enum Function { kExp, kSqrt, kAbs, kMin, kMax, kOfIntegers = kAbs, kOfTwo = kMin };

  // A tensor's element, and for each of its dimensions the name that is its whole index, if one is.
  struct Reference {
    size_t tensor;
    std::vector<std::optional<size_t>> plain;
    bool in_index = false;  // of another element
  };

  // Throws BadExpression. A text is at most a thousand characters long. Without `tensors` it may hold no elements.
  Expression(std::string_view text, const Names& names, const Tensors& tensors = {},
             Numbers numbers = Numbers::kIntegers);

  // Division rounds towards zero. Refused on division by zero, and if 63 bits are too few.
  Value value(const Values& values, const Elements& elements = {}) const;
  // Sets `at` to the element's place in an expression that is one tensor's element; as value(), but for the place.
  std::optional<Refusal> place(const Values& values, const Elements& elements, Stack<int64_t>& at) const;
  // Computes in a type with + - * / and the functions. real_of(name) and element_of(tensor, at) give leaves,
  // number(double) those in the text. Indices of elements are integers, by value()'s rules. Returns whether all of
  // these have a value.
  template <class Real, class Number, class RealOf, class ElementOf>
  std::optional<Refusal> real(Real& result, const Values& values, const Elements& elements, const Number& number,
                              const RealOf& real_of, const ElementOf& element_of) const;
  const std::string& text() const { return text_; }

  bool is_element() const { return steps_.back().what == 't'; }  // of an expression without operators beside it
  std::optional<size_t> plain_name() const;                      // if it is nothing but a name
  const std::vector<Reference>& references() const { return references_; }
  // Returns the names that stand elsewhere than as a whole index.
  const std::vector<size_t>& loose_names() const { return loose_; }
  bool names(size_t name) const;
  // Returns the names in indices, which must be integers.
  const std::vector<size_t>& index_names() const { return in_indices_; }
  bool has_decimals_or_functions() const;
  bool is_integer_of_reals() const { return steps_.back().what == 'i'; }  // int(...), and nothing beside it
  // Returns NAME and EXPRESSION of abs(NAME - EXPRESSION) or abs(EXPRESSION - NAME).
  std::optional<std::pair<size_t, Expression>> distance() const;

 private:
  friend class ExpressionReader;
  // In the order of evaluation: numbers and names are pushed, an operator takes two and pushes one, and a tensor's
  // element takes its indices. The steps of an index are marked: they are integers in an expression of reals, too.
  struct Step {
    char what;       // '#' number, 'd' decimal, 'n' name, 't' element, 'f' function, 'i' int(), or an operator
    int64_t number;  // for '#'; for 'n' the name's index, for 't' the tensor's number, for 'f' that of the function
    int rank = 0;    // for 't'
    bool in_index = false;
    double decimal = 0;  // for 'd'
  };
  // Does a step with integers on the stack.
  Expression() = default;
  std::optional<Refusal> apply(const Step& step, Stack<int64_t>& stack, const Values& values,
                               const Elements& elements) const;

  std::string text_;
  std::vector<Step> steps_;
  std::vector<Reference> references_;
  std::vector<size_t> loose_, in_indices_;
};

template <class Real, class Number, class RealOf, class ElementOf>
std::optional<Refusal> Expression::real(Real& result, const Values& values, const Elements& elements,
                                        const Number& number, const RealOf& real_of,
                                        const ElementOf& element_of) const {
  using std::abs, std::exp, std::max, std::min, std::sqrt;  // of double; other types bring their own
  Stack<Real> stack;
  Stack<int64_t> indices;
  for (const Step& step : steps_) {
    if (step.in_index) {
      if (auto fault = apply(step, indices, values, elements)) return fault;
    } else if (step.what == '#') {
      stack.push_back(number(static_cast<double>(step.number)));
    } else if (step.what == 'd') {
      stack.push_back(number(step.decimal));
    } else if (step.what == 'i') {
      stack.push_back(number(static_cast<double>(indices.back())));
      indices.pop_back();
    } else if (step.what == 'n') {
      stack.push_back(real_of(static_cast<size_t>(step.number)));
    } else if (step.what == 't') {
      const std::span<const int64_t> at(indices.data(), indices.size());
      stack.push_back(element_of(static_cast<size_t>(step.number), at.last(static_cast<size_t>(step.rank))));
      indices.resize(indices.size() - static_cast<size_t>(step.rank));
    } else if (step.what == 'f' && step.number < kOfTwo) {
      const Real& x = stack.back();
      stack.back() = step.number == kExp ? exp(x) : step.number == kSqrt ? sqrt(x) : abs(x);
    } else {
      const Real right = stack.back();
      stack.pop_back();
      Real& left = stack.back();
      left = step.what == '+'      ? left + right
             : step.what == '-'    ? left - right
             : step.what == '*'    ? left * right
             : step.what == '/'    ? left / right
             : step.number == kMin ? min(left, right)
                                   : max(left, right);
    }
  }
  result = stack.back();
  return std::nullopt;
}

// Two expressions and == != < <= > >= between them.
class Condition {
 public:
  Condition(std::string_view text, const Expression::Names& names, const Expression::Tensors& tensors = {},
            Expression::Numbers numbers = Expression::Numbers::kIntegers);

  // Returns why it does not hold; nothing if it does.
  std::optional<Refusal> fault(const Expression::Values& values) const;
  // Returns whether it holds.
  std::variant<bool, Refusal> holds(const Expression::Values& values, const Expression::Elements& elements) const;

  const Expression& left() const { return left_; }
  const Expression& right() const { return right_; }
  std::string_view comparison() const { return comparison_; }
  bool is_equality() const { return comparison_ == "=="; }
  bool is_less() const { return comparison_ == "<" || comparison_ == "<="; }
  // Whether numbers that differ by this compare as it says: 0 for ==.
  bool holds_for(double left_minus_right) const;

 private:
  Condition(std::string_view text, std::pair<size_t, size_t> comparison, const Expression::Names& names,
            const Expression::Tensors& tensors, Expression::Numbers numbers);
  template <class Number>
  bool compare(Number a, Number b) const;

  std::string text_, comparison_;
  Expression left_, right_;
};

}  // namespace msda::adapters
