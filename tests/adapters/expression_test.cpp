// Expressions of user adapters: their values, compared with C++'s, and what they refuse.
#include "recorder/adapters/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace msda::adapters {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

size_t names(std::string_view name) {
  if (name == "n") return 0;
  if (name == "grid.x") return 1;
  if (name == "least") return 2;
  throw BadExpression("no such name");
}
Expression::Value values(size_t name) { return std::array{int64_t{7}, int64_t{1000}, kLeast}[name]; }

std::string describe_value(const Expression::Value& value) {
  const auto* refusal = std::get_if<Refusal>(&value);
  return refusal ? refusal->reason : std::to_string(std::get<int64_t>(value));
}
std::string evaluate(std::string_view text) { return describe_value(Expression(text, names).value(values)); }

TEST(Expression, Values) {
  for (const auto& [text, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"12", 12},
                                                              {" ( n ) ", 7},
                                                              {"grid.x*n+1", 7001},
                                                              {"1+n*grid.x", 7001},
                                                              {"2-3-4", -5},
                                                              {"100/7/2", 7},
                                                              {"100/(7/2)", 33},
                                                              {"100%7*2", 4},
                                                              {"-7/2", -3},
                                                              {"-7%2", -1},
                                                              {"-n*-n", 49},
                                                              {"1--1", 2},
                                                              {"(n+31)/32*32", 32},
                                                              {"least % -1", 0},
                                                              {"min(n, 3) + max(n, 30) * abs(-n)", 213},
                                                              {"n - 1 - abs(n - 1 - abs(3 - 12))", 3},
                                                              {"abs(least + 1)", kMost},
                                                              {"9223372036854775807", kMost},
                                                              {"-9223372036854775807-1", kLeast}}) {
    EXPECT_EQ(evaluate(text), std::to_string(value)) << text;
  }
}

// int() among real numbers holds an expression of integers.
TEST(Expression, IntegersAmongReals) {
  for (const auto& [text, value] :
       std::initializer_list<std::pair<const char*, double>>{{"n / 2", 3.5},
                                                             {"int(n / 2)", 3},
                                                             {"0.5 + int(n % 4 * 2)", 6.5},
                                                             {"abs(int(2 - n)) * int(n / 2)", 15},
                                                             {"0.5 + int(max(n / 2, 1))", 3.5}}) {
    const Expression expression(text, names, {}, Expression::Numbers::kReals);
    double result = 0;
    EXPECT_FALSE(expression.real(
        result, values, {}, [](double x) { return x; },
        [](size_t name) { return static_cast<double>(std::get<int64_t>(values(name))); },
        [](size_t, std::span<const int64_t>) { return 0.0; }));
    EXPECT_EQ(result, value) << text;
  }
  const Expression divides("1.5 * int(n / (n - 7))", names, {}, Expression::Numbers::kReals);
  double none = 0;
  const auto fault = divides.real(
      none, values, {}, [](double x) { return x; }, [](size_t) { return 0.0; },
      [](size_t, std::span<const int64_t>) { return 0.0; });
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->reason.find("divides by zero"), std::string::npos);
  for (const char* text : {"int(0.5)", "int(n", "int(exp(n))"}) {
    EXPECT_THROW(Expression(text, names, {}, Expression::Numbers::kReals), BadExpression) << text;
  }
}

TEST(Expression, RandomOnesAreAsInC) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const int64_t a = random() % 100, b = 1 + random() % 9, c = random() % 100;
    const std::string x = std::to_string(a), y = std::to_string(b), z = std::to_string(c);
    EXPECT_EQ(evaluate(x + "-" + y + "*" + z + "/" + y + "%(" + z + "+1)"), std::to_string(a - b * c / b % (c + 1)));
    EXPECT_EQ(evaluate("(" + x + "-" + z + ")/" + y + "+" + z + "%" + y), std::to_string((a - c) / b + c % b));
  }
}

TEST(Expression, WhatHasNoValueIsRefused) {
  for (const char* text : {"n/0", "n%(n-7)", "0/0"}) EXPECT_THAT(evaluate(text), HasSubstr("by zero")) << text;
  for (const char* text : {"abs(least)", "9223372036854775807+1", "-9223372036854775807-2", "least/-1", "-least",
                           "4294967296*4294967296", "least*-1"}) {
    EXPECT_THAT(evaluate(text), HasSubstr("63 bits")) << text;
  }
  const Expression unknown("n + 1", names);
  EXPECT_EQ(describe_value(unknown.value([](size_t) { return Refusal{"why"}; })), "why");
}

TEST(Expression, TextsThatAreNone) {
  for (const char* text : {"",     " ",    "n n",   "1 2", "(",   ")",      "(n",   "n)", "n+",
                           "*n",   "n**2", "n//2",  "1.5", "n^2", "n == 7", "grid", "m",  "9223372036854775808",
                           "0x10", "n;",   "\"n\"", "+n"}) {
    EXPECT_THROW(Expression(text, names), BadExpression) << text;
  }
  EXPECT_THAT([] { Expression("n + ", names); }, ThrowsMessage<BadExpression>(HasSubstr("the end")));
  EXPECT_THAT([] { Expression("n ? 1", names); }, ThrowsMessage<BadExpression>(HasSubstr("\"?\" at character 3")));
  EXPECT_THAT([] { Expression("exp(n)", names); },
              ThrowsMessage<BadExpression>(HasSubstr("there are abs, min, max of integers")));
  EXPECT_THROW(Expression("min(n)", names), BadExpression);
  EXPECT_THROW(Expression(std::string(500, '(') + "n" + std::string(500, ')'), names), BadExpression);
  EXPECT_THROW(Expression(std::string(999, '-') + "n", names), BadExpression);
  std::string text = "n";
  while (text.size() < 999) text += "+n";
  EXPECT_EQ(evaluate(text), "3500");
  EXPECT_THAT([&] { Expression(text + "+n", names); }, ThrowsMessage<BadExpression>(HasSubstr("1000 characters")));
}

TEST(Condition, Comparisons) {
  const auto holds = [](std::string_view text) { return !Condition(text, names).fault(values); };
  EXPECT_TRUE(holds("n == 7") && holds("n != 8") && holds("n < 8") && holds("n <= 7") && holds("n > 6"));
  EXPECT_TRUE(holds("n >= 7") && holds("grid.x % 8 == 0"));
  EXPECT_FALSE(holds("n == 8") || holds("n != 7") || holds("n < 7") || holds("n <= 6") || holds("n > 7") ||
               holds("n >= 8"));
  EXPECT_EQ(Condition("n*2 == grid.x", names).fault(values)->reason,
            "n*2 == grid.x does not hold: its sides are 14 and 1000");
  EXPECT_THAT(Condition("n/0 == 1", names).fault(values)->reason, HasSubstr("by zero"));
  for (const char* text :
       {"n", "n = 7", "n == 7 == 1", "n === 7", "== 7", "n <", "n <> 7", "n => 7", "", "!n", "1 < n < 9"}) {
    EXPECT_THROW(Condition(text, names), BadExpression) << text;
  }
}

}  // namespace
}  // namespace msda::adapters
