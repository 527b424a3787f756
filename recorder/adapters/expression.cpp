#include "recorder/adapters/expression.h"

#include <algorithm>
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
  ExpressionReader(std::string_view text, const Expression::Names& names, const Expression::Tensors& tensors,
                   Expression::Numbers numbers, Expression& expression)
      : text_(text),
        names_(names),
        tensors_(tensors),
        reals_(numbers == Expression::Numbers::kReals),
        expression_(expression),
        steps_(expression.steps_) {}

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

  // Reads operands of one of the operators, from left to right.
  template <class Operand>
  void chain(std::string_view operators, Operand operand) {
    operand();
    for (char c = next(); c != '\0' && is_one_of(c, operators); c = next()) {
      if (c == '%' && reals_ && indices_ == 0) throw BadExpression(quoted(text_) + " has %, which is for integers");
      ++at_;
      operand();
      push({c, 0});
    }
  }

  void push(Expression::Step step) {
    step.in_index = indices_ > 0;
    steps_.push_back(step);
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
      push({'#', 0});
      factor();
      push({'-', 0});
    } else if (c != '\0' && is_one_of(c, kDigits)) {
      number();
    } else if (c != '\0' && is_one_of(c, kLetters)) {
      const size_t end =
          std::min(text_.find_first_not_of(std::string(kLetters) + std::string(kDigits) + ".", at_), text_.size());
      const std::string_view name = text_.substr(at_, end - at_);
      at_ = end;
      if (tensors_ && next() == '[') {
        element(name);
      } else if (reals_ && indices_ == 0 && name == "int" && next() == '(') {
        integers();
      } else if (next() == '(') {
        function(name);
      } else {
        const size_t known = names_(name);
        expression_.loose_.push_back(known);
        if (indices_ > 0) expression_.in_indices_.push_back(known);
        push({'n', static_cast<int64_t>(known)});
      }
    } else {
      fail("a number, a name or \"(\"");
    }
    --depth_;
  }

  void number() {
    const char* const from = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    int64_t whole = 0;
    const auto parsed = std::from_chars(from, end, whole);
    if (reals_ && indices_ == 0 && parsed.ptr != end && is_one_of(*parsed.ptr, ".eE")) {
      double decimal = 0;
      const auto real = std::from_chars(from, end, decimal);
      if (real.ec != std::errc()) fail("a number that float64 holds");
      at_ = static_cast<size_t>(real.ptr - text_.data());
      push({.what = 'd', .number = 0, .decimal = decimal});
      return;
    }
    if (parsed.ec != std::errc()) fail("a number of at most 63 bits");
    at_ = static_cast<size_t>(parsed.ptr - text_.data());
    push({'#', whole});
  }

  // Reads an expression of integers among real numbers, from the parenthesis on.
  void integers() {
    ++indices_;
    ++at_;
    sum();
    if (next() != ')') fail("\")\"");
    ++at_;
    --indices_;
    push({'i', 0});
  }

  // Reads what a function is of, from the parenthesis on.
  void function(std::string_view name) {
    const bool of_reals = reals_ && indices_ == 0;
    const auto first = std::begin(Expression::kFunctions) + (of_reals ? 0 : Expression::kOfIntegers);
    const auto known = std::find(first, std::end(Expression::kFunctions), name);
    if (known == std::end(Expression::kFunctions)) {
      std::string all;
      for (auto entry = first; entry != std::end(Expression::kFunctions); ++entry) {
        all += (entry == first ? "" : ", ") + std::string(*entry);
      }
      throw BadExpression(quoted(text_) + " has the function " + std::string(name) + "; there are " + all +
                          (of_reals ? ", int" : " of integers"));
    }
    const auto number = known - std::begin(Expression::kFunctions);
    ++at_;
    sum();
    if (number >= Expression::kOfTwo) {
      if (next() != ',') fail("\",\"");
      ++at_;
      sum();
    }
    if (next() != ')') fail("\")\"");
    ++at_;
    push({'f', number});
  }

  // Reads the indices of a tensor's element, from the bracket on.
  void element(std::string_view name) {
    Expression::Reference reference{0, {}};
    ++indices_;
    do {
      ++at_;
      const size_t first = steps_.size();
      sum();
      const bool is_name = steps_.size() == first + 1 && steps_.back().what == 'n';
      reference.plain.push_back(is_name ? std::optional(static_cast<size_t>(steps_.back().number)) : std::nullopt);
      if (is_name) expression_.loose_.pop_back();
    } while (next() == ',');
    if (next() != ']') fail("\",\" or \"]\"");
    ++at_;
    --indices_;
    reference.in_index = indices_ > 0;
    reference.tensor = tensors_(name, reference.plain.size());
    const int rank = static_cast<int>(reference.plain.size());
    push({.what = 't', .number = static_cast<int64_t>(reference.tensor), .rank = rank});
    expression_.references_.push_back(std::move(reference));
  }

  std::string_view text_;
  const Expression::Names& names_;
  const Expression::Tensors& tensors_;
  bool reals_;
  int indices_ = 0;  // brackets of elements, and parentheses of int(), that are open
  Expression& expression_;
  std::vector<Expression::Step>& steps_;
  size_t at_ = 0;
  int depth_ = 0;
};

Expression::Expression(std::string_view text, const Names& names, const Tensors& tensors, Numbers numbers)
    : text_(text) {
  ExpressionReader(text, names, tensors, numbers, *this).read();
}

std::optional<size_t> Expression::plain_name() const {
  if (steps_.size() != 1 || steps_[0].what != 'n') return std::nullopt;
  return static_cast<size_t>(steps_[0].number);
}

bool Expression::has_decimals_or_functions() const {
  return std::ranges::any_of(
      steps_, [](const Step& step) { return std::string_view("dfi").find(step.what) != std::string_view::npos; });
}

std::optional<std::pair<size_t, Expression>> Expression::distance() const {
  const size_t size = steps_.size();
  if (size < 4 || steps_[size - 1].what != 'f' || steps_[size - 1].number != kAbs || steps_[size - 2].what != '-')
    return std::nullopt;
  // Where the right operand begins: where one number more is on the stack than before.
  size_t right = size - 2;
  for (int wanted = 1; wanted > 0;) {
    const Step& step = steps_[--right];
    const bool is_unary = step.what == 'i' || (step.what == 'f' && step.number < kOfTwo);
    const bool is_leaf = step.what == '#' || step.what == 'd' || step.what == 'n';
    wanted += (is_leaf ? 0 : step.what == 't' ? step.rank : is_unary ? 1 : 2) - 1;
  }
  const auto middle = steps_.begin() + static_cast<std::ptrdiff_t>(right), end = steps_.end() - 2;
  const bool on_left = right == 1 && steps_[0].what == 'n', on_right = end - middle == 1 && middle->what == 'n';
  if (!on_left && !on_right) return std::nullopt;
  Expression rest;
  rest.text_ = text_;
  rest.steps_ = on_left ? std::vector<Step>(middle, end) : std::vector<Step>(steps_.begin(), middle);
  rest.references_ = references_;
  rest.loose_ = loose_;
  const auto name = static_cast<size_t>(on_left ? steps_[0].number : middle->number);
  rest.loose_.erase(std::ranges::find(rest.loose_, name));
  return std::pair(name, std::move(rest));
}

bool Expression::names(size_t name) const {
  return std::ranges::any_of(
      steps_, [&](const Step& step) { return step.what == 'n' && step.number == static_cast<int64_t>(name); });
}

std::optional<Refusal> Expression::apply(const Step& step, Stack<int64_t>& stack, const Values& values,
                                         const Elements& elements) const {
  const char what = step.what;
  if (what == '#') {
    stack.push_back(step.number);
    return std::nullopt;
  }
  if (what == 'n' || what == 't') {
    const auto rank = static_cast<size_t>(step.rank);
    const Value value = what == 'n'
                            ? values(static_cast<size_t>(step.number))
                            : elements(static_cast<size_t>(step.number), {stack.data() + stack.size() - rank, rank});
    if (const auto* refusal = std::get_if<Refusal>(&value)) return *refusal;
    stack.resize(stack.size() - rank);
    stack.push_back(std::get<int64_t>(value));
    return std::nullopt;
  }
  if (what == 'f' && step.number == kAbs) {
    int64_t& x = stack.back();
    if (x < 0 && __builtin_sub_overflow(int64_t{0}, x, &x)) return Refusal{text_ + " is more than 63 bits hold"};
    return std::nullopt;
  }
  const int64_t right = stack.back();
  stack.pop_back();
  int64_t& left = stack.back();
  if (what == 'f') {
    left = step.number == kMin ? std::min(left, right) : std::max(left, right);
    return std::nullopt;
  }
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
  return std::nullopt;
}

Expression::Value Expression::value(const Values& values, const Elements& elements) const {
  Stack<int64_t> stack;
  for (const Step& step : steps_) {
    if (auto fault = apply(step, stack, values, elements)) return *std::move(fault);
  }
  return stack.back();
}

std::optional<Refusal> Expression::place(const Values& values, const Elements& elements, Stack<int64_t>& at) const {
  at.clear();
  for (const Step& step : std::span(steps_).first(steps_.size() - 1)) {
    if (auto fault = apply(step, at, values, elements)) return fault;
  }
  return std::nullopt;
}

namespace {

// Returns where the one comparison in a condition stands, and how long it is.
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

Condition::Condition(std::string_view text, const Expression::Names& names, const Expression::Tensors& tensors,
                     Expression::Numbers numbers)
    : Condition(text, comparison_in(text), names, tensors, numbers) {}

Condition::Condition(std::string_view text, std::pair<size_t, size_t> comparison, const Expression::Names& names,
                     const Expression::Tensors& tensors, Expression::Numbers numbers)
    : text_(text),
      comparison_(text.substr(comparison.first, comparison.second)),
      left_(text.substr(0, comparison.first), names, tensors, numbers),
      right_(text.substr(comparison.first + comparison.second), names, tensors, numbers) {}

bool Condition::holds_for(double left_minus_right) const { return compare(left_minus_right, 0.0); }

template <class Number>
bool Condition::compare(Number a, Number b) const {
  const bool or_equal = comparison_.size() == 2;
  switch (comparison_[0]) {
    case '<':
      return or_equal ? a <= b : a < b;
    case '>':
      return or_equal ? a >= b : a > b;
    case '=':
      return a == b;
    default:
      return a != b;
  }
}

std::variant<bool, Refusal> Condition::holds(const Expression::Values& values,
                                             const Expression::Elements& elements) const {
  const auto left = left_.value(values, elements);
  if (const auto* refusal = std::get_if<Refusal>(&left)) return *refusal;
  const auto right = right_.value(values, elements);
  if (const auto* refusal = std::get_if<Refusal>(&right)) return *refusal;
  return compare(std::get<int64_t>(left), std::get<int64_t>(right));
}

std::optional<Refusal> Condition::fault(const Expression::Values& values) const {
  const auto left = left_.value(values), right = right_.value(values);
  for (const auto* side : {&left, &right}) {
    if (const auto* refusal = std::get_if<Refusal>(side)) return *refusal;
  }
  const int64_t a = std::get<int64_t>(left), b = std::get<int64_t>(right);
  if (compare(a, b)) return std::nullopt;
  return Refusal{text_ + " does not hold: its sides are " + std::to_string(a) + " and " + std::to_string(b)};
}

}  // namespace msda::adapters
