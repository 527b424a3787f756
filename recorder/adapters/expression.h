// Integer expressions of user adapters, such as "grid.x * block.x / 32": numbers, names, + - * / % and parentheses; in
// conditions also one comparison. Computed in int64, checked: an expression has its mathematical value or none.
#pragma once

#include <cstdint>
#include <functional>
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
  // The value of a name in an expression, by the index that the name was given when the text was read.
  using Values = std::function<Value(size_t name)>;
  // The index of a name; throws BadExpression for an unknown name.
  using Names = std::function<size_t(std::string_view name)>;

  // Throws BadExpression. A text is at most a thousand characters long.
  Expression(std::string_view text, const Names& names);

  // Division rounds towards zero. Refused on division by zero, and if 63 bits are too few.
  Value value(const Values& values) const;
  const std::string& text() const { return text_; }

 private:
  friend class ExpressionReader;
  // In the order of evaluation: numbers and names are pushed, an operator takes two and pushes one.
  struct Step {
    char what;       // '#' number, 'n' name, or an operator
    int64_t number;  // for '#'; for 'n' the name's index
  };
  std::string text_;
  std::vector<Step> steps_;
};

// Two expressions and == != < <= > >= between them.
class Condition {
 public:
  Condition(std::string_view text, const Expression::Names& names);

  // Why it does not hold; nothing if it does.
  std::optional<Refusal> fault(const Expression::Values& values) const;

 private:
  Condition(std::string_view text, std::pair<size_t, size_t> comparison, const Expression::Names& names);

  std::string text_, comparison_;
  Expression left_, right_;
};

}  // namespace msda::adapters
