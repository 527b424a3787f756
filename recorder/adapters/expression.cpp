#include "recorder/adapters/expression.h"

#include <charconv>
#include <utility>

namespace msda::adapters {
namespace {

constexpr size_t kLongest = 1000;
constexpr int kDeepest = 50;  // of parentheses and signs

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kDigits = "0123456789";

bool is_one_of(char c, std::string_view characters) { return characters.find(c) != characters.npos; }

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

}  // namespace

// Reads by recursive descent: sums of products of factors.
class ExpressionReader {
 public:
  ExpressionReader(std::string_view text, const Expression::Names& names, std::vector<Expression::Step>& steps)
      : text_(text), names_(names), steps_(steps) {}

  void read() {
    if (text_.size() > kLongest) throw BadExpression("an expression of more than 1000 characters");
    sum();
    if (at_ < text_.size()) fail("an operator or the end");
  }

 private:
  [[noreturn]] void fail(const char* wanted) const {
    const std::string where = at_ < text_.size() ? quoted(text_.substr(at_, 1)) : "the end";
    throw BadExpression(quoted(text_) + " has " + where + " at character " + std::to_string(at_ + 1) + ", where " +
                        wanted + " is expected");
  }

  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  // Operands of one of the operators, from left to right.
  template <class Operand>
  void chain(std::string_view operators, Operand operand) {
    operand();
    for (char c = next(); c != '\0' && is_one_of(c, operators); c = next()) {
      ++at_;
      operand();
      steps_.push_back({c, 0});
    }
  }
  void sum() {
    chain("+-", [this] { product(); });
  }
  void product() {
    chain("*/%", [this] { factor(); });
  }

  void factor() {
    if (++depth_ > kDeepest) throw BadExpression(quoted(text_) + " is nested too deep");
    const char c = next();
    if (c == '(') {
      ++at_;
      sum();
      if (next() != ')') fail("\")\"");
      ++at_;
    } else if (c == '-') {
      ++at_;
      steps_.push_back({'#', 0});
      factor();
      steps_.push_back({'-', 0});
    } else if (c != '\0' && is_one_of(c, kDigits)) {
      int64_t number = 0;
      const auto parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (parsed.ec != std::errc()) fail("a number of at most 63 bits");
      at_ = static_cast<size_t>(parsed.ptr - text_.data());
      steps_.push_back({'#', number});
    } else if (c != '\0' && is_one_of(c, kLetters)) {
      const size_t end =
          std::min(text_.find_first_not_of(std::string(kLetters) + std::string(kDigits) + ".", at_), text_.size());
      const size_t name = names_(text_.substr(at_, end - at_));
      at_ = end;
      steps_.push_back({'n', static_cast<int64_t>(name)});
    } else {
      fail("a number, a name or \"(\"");
    }
    --depth_;
  }

  std::string_view text_;
  const Expression::Names& names_;
  std::vector<Expression::Step>& steps_;
  size_t at_ = 0;
  int depth_ = 0;
};

Expression::Expression(std::string_view text, const Names& names) : text_(text) {
  ExpressionReader(text, names, steps_).read();
}

Expression::Value Expression::value(const Values& values) const {
  std::vector<int64_t> stack;
  for (const auto& [what, number] : steps_) {
    if (what == '#') {
      stack.push_back(number);
      continue;
    }
    if (what == 'n') {
      const Value value = values(static_cast<size_t>(number));
      if (const auto* refusal = std::get_if<Refusal>(&value)) return *refusal;
      stack.push_back(std::get<int64_t>(value));
      continue;
    }
    const int64_t right = stack.back();
    stack.pop_back();
    int64_t& left = stack.back();
    const bool divides = what == '/' || what == '%';
    if (divides && right == 0) return Refusal{text_ + " divides by zero"};
    bool overflow = false;
    if (what == '+') overflow = __builtin_add_overflow(left, right, &left);
    if (what == '-') overflow = __builtin_sub_overflow(left, right, &left);
    if (what == '*') overflow = __builtin_mul_overflow(left, right, &left);
    if (what == '/' && right == -1) {  // the one quotient that may be too large
      overflow = __builtin_sub_overflow(int64_t{0}, left, &left);
    } else if (divides) {
      left = what == '/' ? left / right : right == -1 ? 0 : left % right;
    }
    if (overflow) return Refusal{text_ + " is more than 63 bits hold"};
  }
  return stack.back();
}

namespace {

// Where the one comparison in a condition stands, and how long it is.
std::pair<size_t, size_t> comparison_in(std::string_view text) {
  const size_t at = text.find_first_of("=!<>");
  const size_t end = at == text.npos ? at : std::min(text.find_first_not_of("=!<>", at), text.size());
  const std::string_view word = at == text.npos ? "" : text.substr(at, end - at);
  for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
    if (word == known) return {at, end - at};
  }
  throw BadExpression(quoted(text.substr(0, kLongest)) + " has no comparison; write one of == != < <= > >=");
}

}  // namespace

Condition::Condition(std::string_view text, const Expression::Names& names)
    : Condition(text, comparison_in(text), names) {}

Condition::Condition(std::string_view text, std::pair<size_t, size_t> comparison, const Expression::Names& names)
    : text_(text),
      comparison_(text.substr(comparison.first, comparison.second)),
      left_(text.substr(0, comparison.first), names),
      right_(text.substr(comparison.first + comparison.second), names) {}

std::optional<Refusal> Condition::fault(const Expression::Values& values) const {
  const auto left = left_.value(values), right = right_.value(values);
  for (const auto* side : {&left, &right}) {
    if (const auto* refusal = std::get_if<Refusal>(side)) return *refusal;
  }
  const int64_t a = std::get<int64_t>(left), b = std::get<int64_t>(right);
  const bool holds = comparison_ == "=="   ? a == b
                     : comparison_ == "!=" ? a != b
                     : comparison_ == "<"  ? a < b
                     : comparison_ == "<=" ? a <= b
                     : comparison_ == ">"  ? a > b
                                           : a >= b;
  if (holds) return std::nullopt;
  return Refusal{text_ + " does not hold: its sides are " + std::to_string(a) + " and " + std::to_string(b)};
}

}  // namespace msda::adapters
