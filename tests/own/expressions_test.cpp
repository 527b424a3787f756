// Operators whose addends are expressions, against loops in float64 that are written out here, and against sums in
// float32 in drawn orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/bounded.h"
#include "replay/base/errors.h"
#include "replay/own/expression_operator.h"

namespace msda::replay {
namespace {

using analysis::Index;
using analysis::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

// What a capture would hold, in memory.
struct Recorded {
  std::map<std::string, std::pair<Index, std::vector<float>>> floats;
  std::map<std::string, std::pair<Index, std::vector<int64_t>>> integers;
  std::map<std::string, Index> outputs;
  std::string scalars;
  msda_dtype output_type = MSDA_FLOAT32;

  static void add(std::vector<capture::TensorInfo>& to, const std::string& name, msda_dtype type, const Index& shape) {
    capture::TensorInfo& info = to.emplace_back();
    info.name = name;
    info.type = type;
    info.shape = shape;
  }
  capture::Invocation invocation() const {
    capture::Invocation entry;
    entry.facts.texts["scalars"] = scalars;
    for (const auto& [name, tensor] : floats) {
      add(entry.inputs, name, MSDA_FLOAT32, tensor.first);
    }
    for (const auto& [name, tensor] : integers) {
      add(entry.inputs, name, MSDA_INT64, tensor.first);
    }
    for (const auto& [name, shape] : outputs) add(entry.outputs, name, output_type, shape);
    return entry;
  }
  std::shared_ptr<const OwnCall> bind(const OwnOperator& op) const {
    const auto input = [&](const std::string& name) -> Tensor {
      if (const auto found = floats.find(name); found != floats.end()) {
        return {found->second.second.data(), MSDA_FLOAT32, found->second.first};
      }
      const auto& [shape, numbers] = integers.at(name);
      return {numbers.data(), MSDA_INT64, shape};
    };
    const auto output = [&](const std::string& name) -> Tensor { return {nullptr, MSDA_FLOAT32, outputs.at(name)}; };
    return op.bind(invocation(), "a.h5", input, output);
  }
};

// An adapter of float32 tensors and int64 ones whose names begin with i_, of the scalars n (int32) and alpha (float32).
ExpressionOperator operator_of(const std::vector<std::pair<std::string, int>>& tensors, const std::string& output,
                               const std::string& op) {
  std::string parameters, text;
  for (const auto& [name, rank] : tensors) {
    std::string shape = "1";
    for (int i = 1; i < rank; ++i) shape += ", 1";
    parameters += R"(, {"name": "p_)" + name + R"(", "type": "pointer"})";
    const std::string role = name == output ? "inout" : "input", type = name.starts_with("i_") ? "int64" : "float32";
    text += (text.empty() ? "" : ", ") + (R"({"name": ")" + name) + R"(", "role": ")" + role + R"(", "pointer": "p_)" +
            name + R"(", "type": ")" + type + R"(", "shape": [)" + shape + "]}";
  }
  const std::string file =
      R"({"format": "msda-adapter", "version": 1, "adapters": [{"name": "mine", "kernel": "mine", "parameters": [
      {"name": "n", "type": "int32"}, {"name": "alpha", "type": "float32"})" +
      parameters + R"(], "tensors": [)" + text + R"(], "operator": )" + op + "}]}";
  return ExpressionOperator(adapters::parse_user_specs("a.json", file).at(0));
}

std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(random) * std::exp(normal(random));
  return numbers;
}

std::vector<double> float64_of(const OwnCall& call) {
  std::vector<double> values(
      static_cast<size_t>(Tensor{nullptr, MSDA_FLOAT32, call.shape_of(call.gradients()[0])}.elements()));
  analysis::evaluate(call, call.gradients()[0], analysis::EvaluationMode::kFloat64, 0, 2,
                     [&](int64_t flat, double value) { values[static_cast<size_t>(flat)] = value; });
  return values;
}

void expect_near_all(const std::vector<double>& observed, const std::vector<double>& expected) {
  ASSERT_EQ(observed.size(), expected.size());
  for (size_t i = 0; i < observed.size(); ++i)
    EXPECT_NEAR(observed[i], expected[i], 1e-12 * (1 + std::abs(expected[i])));
}

Recorded segments() {
  Recorded recorded{{}, {}, {{"y", {7, 3}}}, "n=40 alpha=1"};
  recorded.floats["x"] = {{40, 3}, random_floats(120, 1)};
  std::mt19937 random(2);
  std::vector<int64_t> rows(40);
  for (int64_t& row : rows) row = random() % 9 - 1;  // -1 and 7 belong to no segment
  recorded.integers["i_row"] = {{40}, rows};
  return recorded;
}

constexpr const char* kSegments =
    R"({"name": "segments", "outputs": [{"tensor": "y", "index": ["s", "c"], "over": ["r"], "where": ["i_row[r] == s"],
        "channels": ["c"], "addends": "x[r, c]"}]})";

TEST(OwnExpressions, SegmentSum) {
  const Recorded recorded = segments();
  const auto op = operator_of({{"x", 2}, {"i_row", 1}, {"y", 2}}, "y", kSegments);
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  std::vector<double> expected(21, 0);
  for (size_t r = 0; r < 40; ++r) {
    const int64_t s = recorded.integers.at("i_row").second[r];
    for (size_t c = 0; c < 3 && s >= 0 && s < 7; ++c) {
      expected[static_cast<size_t>(s) * 3 + c] += recorded.floats.at("x").second[r * 3 + c];
    }
  }
  expect_near_all(float64_of(call), expected);
  EXPECT_EQ(call.text_of_sizes(), "s 7, c 3, r 40");
  EXPECT_FALSE(call.adds_to_output());
  // A condition that is no equality with an index is tried for every row: the same addends.
  std::string tried = kSegments;
  tried.replace(tried.find("i_row[r] == s"), 13, "i_row[r] - s == 0");
  const auto slow = operator_of({{"x", 2}, {"i_row", 1}, {"y", 2}}, "y", tried);
  const auto bound_same = recorded.bind(slow);
  const OwnCall& same = *bound_same;
  EXPECT_EQ(float64_of(same), float64_of(call));
  EXPECT_LT(call.term_count(0), same.term_count(0) / 5);
}

TEST(OwnExpressions, MatrixAndWhatItHeld) {
  Recorded recorded{{}, {}, {{"y", {6}}}, "n=11 alpha=0.25"};
  recorded.floats["a"] = {{6, 11}, random_floats(66, 3)};
  recorded.floats["x"] = {{11}, random_floats(11, 4)};
  recorded.floats["y"] = {{6}, random_floats(6, 5)};
  const auto op = operator_of({{"a", 2}, {"x", 1}, {"y", 1}}, "y",
                              R"({"name": "mv", "outputs": [{"tensor": "y", "index": ["i"], "over": ["j"],
                                  "start": "y[i]", "addends": "alpha * a[i, j] * x[j] - x[j] / n"}]})");
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  EXPECT_TRUE(call.adds_to_output());
  std::vector<double> expected(6);
  for (size_t i = 0; i < 6; ++i) {
    expected[i] = recorded.floats.at("y").second[i];
    for (size_t j = 0; j < 11; ++j) {
      const double x = recorded.floats.at("x").second[j];
      expected[i] += 0.25 * recorded.floats.at("a").second[i * 11 + j] * x - x / 11;
    }
  }
  expect_near_all(float64_of(call), expected);
  EXPECT_EQ(call.name_of_term(call.gradients()[0], -1), "what it begins with");
  EXPECT_EQ(call.name_of_term(call.gradients()[0], 5), "j 2, addend 1");
}

// Whatever the order in which float32 adds, the bound holds it; twice the bound would hold a mistake of that size, too.
TEST(OwnExpressions, BoundsHoldEveryOrder) {
  const Recorded recorded = segments();
  const auto op = operator_of({{"x", 2}, {"i_row", 1}, {"y", 2}}, "y", kSegments);
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  const auto cache = call.new_cache();
  const auto precision = analysis::Precision::of(MSDA_FLOAT32);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    analysis::evaluate(call, call.gradients()[0], analysis::EvaluationMode::kAtomic, seed, 1,
                       [&](int64_t flat, double x) {
                         const auto element =
                             call.element({call.gradients()[0], flat, {}}, {}, {precision, precision}, nullptr, *cache);
                         EXPECT_LE(std::abs(x - element.value), element.bound());
                         EXPECT_LE(element.bound(), 1e-5 * (1 + element.cancelled));
                       });
  }
}

// Points that are splatted onto a line: a coordinate that is computed of a tensor, for each point of the sum.
Recorded splats() {
  Recorded recorded{{}, {}, {{"y", {9, 2}}}, "n=50 alpha=1"};
  recorded.floats["x"] = {{50}, random_floats(50, 7)};
  for (size_t i = 0; i < 10; ++i) recorded.floats["x"].second[i] = static_cast<float>(i) / 4;  // on pixels, too
  recorded.floats["v"] = {{50, 2}, random_floats(100, 8)};
  return recorded;
}

constexpr const char* kSplats =
    R"json({"name": "splat",
            "stages": [{"name": "p", "index": ["r"], "value": "x[r] * 4 + exp(-x[r] * x[r]) / 3"}],
            "outputs": [{"tensor": "y", "index": ["i", "c"], "over": ["r"], "where": ["abs(i - p[r]) < 1"],
                         "addends": "v[r, c] * (1 - abs(i - p[r]))"}]})json";

TEST(OwnExpressions, CoordinatesOfPoints) {
  const Recorded recorded = splats();
  const auto op = operator_of({{"x", 1}, {"v", 2}, {"y", 2}}, "y", kSplats);
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  std::vector<double> expected(18, 0);
  std::vector<float> in_float32(18, 0);
  for (size_t r = 0; r < 50; ++r) {
    const float x = recorded.floats.at("x").second[r], p32 = x * 4.0f + std::exp(-x * x) / 3.0f;
    const double p = x * 4.0 + std::exp(-static_cast<double>(x) * x) / 3;
    for (size_t at = 0; at < 18; ++at) {
      const auto i = static_cast<double>(at / 2);
      const float v = recorded.floats.at("v").second[r * 2 + at % 2];
      if (std::abs(i - p) < 1) expected[at] += v * (1 - std::abs(i - p));
      const float distance = std::abs(static_cast<float>(i) - p32);
      if (distance < 1) in_float32[at] += v * (1 - distance);
    }
  }
  expect_near_all(float64_of(call), expected);
  const auto cache = call.new_cache();
  const auto precision = analysis::Precision::of(MSDA_FLOAT32), exact = analysis::Precision::of(MSDA_FLOAT64);
  for (int64_t flat = 0; flat < 18; ++flat) {
    const analysis::ElementId id{call.gradients()[0], flat, {}};
    const auto element = call.element(id, {}, {precision, precision}, nullptr, *cache);
    EXPECT_LE(std::abs(in_float32[static_cast<size_t>(flat)] - element.value), element.bound());
    EXPECT_LE(element.bound(), 2e-5 * (1 + element.cancelled));
    EXPECT_LE(call.element(id, {}, {exact, exact}, nullptr, *cache).bound(), 1e-13 * (1 + element.cancelled));
  }
  // A condition that is not looked up lets the same points through.
  std::string tried = kSplats;
  tried.replace(tried.find("abs(i - p[r]) < 1"), 17, "1 > abs(i - p[r])");
  const auto slow = operator_of({{"x", 1}, {"v", 2}, {"y", 2}}, "y", tried);
  const auto bound_same = recorded.bind(slow);
  const OwnCall& same = *bound_same;
  EXPECT_EQ(float64_of(same), float64_of(call));
  EXPECT_LT(call.term_count(0), same.term_count(0) / 3);
}

// The roundings of a weight that cancels are far larger than those of its product: bounds have to hold them.
TEST(OwnExpressions, WeightsThatCancel) {
  Recorded recorded{{}, {}, {{"y", {30}}}, "n=30 alpha=1"};
  recorded.floats["x"] = {{30}, random_floats(30, 9)};
  recorded.floats["v"] = {{30}, random_floats(30, 10)};
  const auto op = operator_of({{"x", 1}, {"v", 1}, {"y", 1}}, "y",
                              R"json({"name": "mine", "outputs": [{"tensor": "y", "index": ["i"],
                                      "addends": "v[i] * (x[i] * 1000.5 - x[i] * 1000)"}]})json");
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  const auto cache = call.new_cache();
  const auto precision = analysis::Precision::of(MSDA_FLOAT32);
  double farthest = 0;
  for (int64_t i = 0; i < 30; ++i) {
    const float x = recorded.floats.at("x").second[static_cast<size_t>(i)];
    const float v = recorded.floats.at("v").second[static_cast<size_t>(i)];
    const float scaled = x * 1000.5f, cancelled = scaled - x * 1000.0f, computed = v * cancelled;
    const auto element = call.element({call.gradients()[0], i, {}}, {}, {precision, precision}, nullptr, *cache);
    EXPECT_LE(std::abs(computed - element.value), element.bound());
    EXPECT_LE(element.bound(), 1e-3 * std::abs(element.value));
    farthest = std::max(farthest, std::abs(computed - element.value) / std::abs(element.value));
  }
  EXPECT_GT(farthest, 1e-5);
}

// A point that rounding may bring to either side of a condition is in the value as the exact numbers say, and in the
// bound either way.
TEST(OwnExpressions, ConditionsInDoubt) {
  Recorded recorded{{}, {}, {{"y", {1}}}, "n=3 alpha=3"};
  recorded.floats["x"] = {{3}, {0.1f, 1.0f, -1.0f}};  // 3 * 0.1f is 0.30000001192...
  recorded.floats["v"] = {{3}, {2, 4, 8}};
  const auto op = operator_of({{"x", 1}, {"v", 1}, {"y", 1}}, "y",
                              R"({"name": "mine", "outputs": [{"tensor": "y", "index": ["i"], "over": ["r"],
                                  "where": ["x[r] * alpha <= 0.3"], "addends": "v[r]"}]})");
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  const auto cache = call.new_cache();
  const auto bound_in = [&](msda_dtype type) {
    const auto precision = analysis::Precision::of(type);
    const auto element = call.element({call.gradients()[0], 0, {}}, {}, {precision, precision}, nullptr, *cache);
    EXPECT_EQ(element.value, 8);
    return element.bound();
  };
  EXPECT_NEAR(bound_in(MSDA_FLOAT32), 2, 1e-4);
  EXPECT_LT(bound_in(MSDA_FLOAT64), 1e-12);
}

// The errors that are documented hold those of the C library in float32, and are no vague guesses.
TEST(OwnExpressions, ErrorsOfFunctions) {
  const auto precision = analysis::Precision::of(MSDA_FLOAT32);
  for (const float x : random_floats(1000, 11)) {
    const analysis::Bounded at(x, precision), product = at * at;
    const auto holds = [&](const analysis::Bounded& bounded, float computed) {
      EXPECT_LE(std::abs(computed - bounded.value()), bounded.error());
      EXPECT_LE(bounded.error(), 1e-6 * std::abs(bounded.value()) * (2 + std::abs(x) + x * x) + 1e-30);
    };
    holds(exp(at), std::exp(x));
    holds(sqrt(product), std::sqrt(x * x));
    holds(max(product, at), std::max(x * x, x));
    holds(min(abs(at), product), std::min(std::abs(x), x * x));
  }
  EXPECT_EQ(sqrt(analysis::Bounded(1, precision) - analysis::Bounded(1, precision)).error(), INFINITY);
}

Recorded samples() {
  Recorded recorded{{}, {}, {{"y", {3}}}, "n=5 alpha=2"};
  recorded.floats["v"] = {{5}, {1, 2, 4, 8, 16}};
  // Coordinates 1.3, 2 less the rounding of 0.5, and beyond the last cell.
  recorded.floats["x"] = {{3}, {0.36f, 0.5f, 0.95f}};
  return recorded;
}

constexpr const char* kSamples =
    R"({"name": "slope", "outputs": [{"tensor": "y", "index": ["i"],
        "coordinates": [{"name": "p", "location": "x[i]", "size": "n", "value": "location * size - 0.5"}],
        "where": ["p.cell + 1 < n"],
        "addends": "v[p.cell] * (1 - p.fraction) * alpha + v[p.cell + 1] * p.fraction * alpha"}]})";

TEST(OwnExpressions, Coordinates) {
  const Recorded recorded = samples();
  const auto op = operator_of({{"v", 1}, {"x", 1}, {"y", 1}}, "y", kSamples);
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  std::vector<double> expected;
  for (const float x : recorded.floats.at("x").second) {
    const double at = static_cast<double>(x) * 5 - 0.5, cell = std::floor(at);
    const auto& v = recorded.floats.at("v").second;
    const auto i = static_cast<size_t>(cell);
    expected.push_back(i + 1 < 5 ? 2 * (v[i] * (1 - (at - cell)) + v[i + 1] * (at - cell)) : 0);
  }
  expect_near_all(float64_of(call), expected);
  const auto precision = analysis::Precision::of(MSDA_FLOAT32);
  const auto landings = [&](int64_t flat) {
    return call.landings(call.axes({call.gradients()[0], flat, {}})[0], precision);
  };
  EXPECT_EQ(landings(0).size(), 1u);
  ASSERT_EQ(landings(1).size(), 2u);  // exactly 2: rounding may bring it below
  EXPECT_EQ(landings(1)[0].low, 2);
  EXPECT_EQ(landings(1)[1].low, 1);
  // The coordinate's error reaches the value by its weights.
  const auto cache = call.new_cache();
  const auto element =
      call.element({call.gradients()[0], 0, {}}, {landings(0)[0]}, {precision, precision}, nullptr, *cache);
  const double error = landings(0)[0].error;
  EXPECT_GT(error, 0);
  EXPECT_NEAR(element.from_coordinates, error * 2 * (2 + 4), error * 0.1);
}

TEST(OwnExpressions, SmallerCalls) {
  const Recorded recorded = segments();
  const auto op = operator_of({{"x", 2}, {"i_row", 1}, {"y", 2}}, "y", kSegments);
  const auto bound_call = recorded.bind(op);
  const OwnCall& call = *bound_call;
  const auto cuts = call.cuts();
  ASSERT_EQ(cuts.size(), 2u);  // a segment is a number in i_row, too
  EXPECT_STREQ(cuts[0].name, "c");
  EXPECT_STREQ(cuts[1].name, "r");
  const analysis::Kept kept{{1}, {0, 5, 6, 39}};
  EXPECT_EQ(call.kept_of("x", kept), (analysis::Kept{kept[1], kept[0]}));
  EXPECT_EQ(call.kept_of("i_row", kept), (analysis::Kept{kept[1]}));
  EXPECT_EQ(call.kept_of("y", kept), (analysis::Kept{{0, 1, 2, 3, 4, 5, 6}, {1}}));
  analysis::Inputs small;
  for (const auto& all_input : call.all_inputs())
    small.push_back(sliced(all_input.name, all_input.tensor, call.kept_of(all_input.name, kept)));
  const auto smaller = call.with_inputs(small);
  EXPECT_EQ(smaller->text_of_sizes(), "s 7, c 1, r 4");
  EXPECT_EQ(smaller->shape_of(smaller->gradients()[0]), (Index{7, 1}));
}

TEST(OwnExpressions, Refuses) {
  const auto refuses = [](const Recorded& recorded, const std::string& op, const std::string& why) {
    const auto given = operator_of({{"x", 2}, {"i_row", 1}, {"y", 2}}, "y", op);
    EXPECT_THAT([&] { recorded.bind(given); },
                ThrowsMessage<BadInput>(testing::AllOf(HasSubstr("a.h5"), HasSubstr(why))))
        << op;
  };
  const auto with_addends = [](const std::string& text, const std::string& where = "i_row[r] == s") {
    return R"({"name": "mine", "outputs": [{"tensor": "y", "index": ["s", "c"], "over": ["r"], "where": [")" + where +
           R"("], "addends": ")" + text + R"("}]})";
  };
  refuses(segments(), with_addends("x[r + 40, c]"), "reads x[");
  refuses(segments(), with_addends("x[i_row[r] - 1, c]", "i_row[r] <= s"), "reads x[-");
  refuses(segments(), with_addends("x[r, c] / (s - 3)"), "is 0");
  refuses(segments(), with_addends("x[r, c] * x[r / s, c]"), "divides by zero");
  refuses(segments(), with_addends("x[r, c]", "i_row[r + 1] == s"), "reads i_row[40]");
  refuses(segments(), with_addends("n"), "reads no floating-point tensor");
  Recorded another = segments();
  another.integers["i_row"] = {{39}, std::vector<int64_t>(39)};
  refuses(another, kSegments, "give its size in \"sizes\"");
  another = segments();
  another.outputs["y"] = {7, 4};
  refuses(another, kSegments, "y has shape [7, 4], and its indices the sizes [7, 3]");
  another = segments();
  another.scalars = "n=40";
  refuses(another, kSegments, "scalars has no alpha");
  another.scalars = "n=many alpha=1";
  refuses(another, kSegments, "scalars has n=many, which is no number");
  another = segments();
  another.floats["x"].first = {120};
  refuses(another, kSegments, "x has type float32 and shape [120], and adapter mine says float32 of 2 dimensions");
  another = segments();
  another.floats.erase("x");
  refuses(another, kSegments, "has no x of type float32");
  another = segments();
  another.output_type = kernels::kUInt8;
  refuses(another, kSegments, "/outputs has no y of floating-point type and 2 dimensions");
  // Sizes that nothing may be allocated by.
  refuses(segments(), R"({"name": "mine", "sizes": {"s": "n * 10000000000"}, "outputs": [{"tensor": "y",
                          "index": ["s", "c"], "over": ["r"], "where": ["i_row[r] == s"], "addends": "x[r, c]"}]})",
          "y has shape [7, 3], and its indices the sizes [400000000000, 3]");
  refuses(segments(),
          R"({"name": "mine", "sizes": {"r": "n * 100000000"}, "outputs": [{"tensor": "y", "index": ["s", "c"],
                          "over": ["r"], "addends": "x[0, c]"}]})",
          "2^26 can be examined at most");
  refuses(segments(),
          R"({"name": "mine", "sizes": {"r": "n * 1000000"}, "outputs": [{"tensor": "y", "index": ["s", "c"],
                          "over": ["r"], "addends": "x[0, c]"}]})",
          "2^28 can be examined at most");
}

}  // namespace
}  // namespace msda::replay
