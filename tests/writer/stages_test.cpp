// The stages that the writer adds to a capture: their summaries, their parts, and the calls that have none.
#include "recorder/writer/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "recorder/capture/digest.h"
#include "recorder/capture/reader.h"
#include "recorder/spool/appender.h"
#include "recorder/writer/builder.h"
#include "recorder/writer/summarize.h"
#include "tests/support/in_a_folder.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

using namespace record;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallestFloat = std::numeric_limits<float>::min();

// A summary, every field of it, as text that can be compared.
class Texts {
 public:
  void operator()(const char* name, int64_t value) { text += fmt::format("{} {}\n", name, value); }
  void operator()(const char* name, const std::optional<double>& value) {
    text += value ? fmt::format("{} {:a}\n", name, *value) : fmt::format("{} -\n", name);
  }
  void operator()(const char* name, const std::optional<capture::Extreme>& extreme) {
    text += extreme ? fmt::format("{} {:a} {}\n", name, extreme->value, extreme->index) : fmt::format("{} -\n", name);
  }
  std::string text;
};

std::string text_of(const capture::StageSummary& summary) {
  Texts texts;
  for_each_summary_attribute(summary, texts);
  return texts.text;
}
std::string text_of(const capture::StageFacts& facts) {
  std::string text = facts.arithmetic + "\n" + text_of(facts.summary);
  if (!facts.float64) return text;
  Texts texts;
  for_each_difference_attribute(*facts.float64, texts);
  return text + "float64\n" + text_of(facts.float64->summary) + texts.text;
}

TEST(Summarizer, CountsEveryKindOfNumber) {
  const std::vector<double> numbers{0,     -0.0,      1e-40,      -0x1p-126, 3,    -7, kNan,
                                    -kNan, kInfinity, -kInfinity, kInfinity, -7.0, 3,  0x1p-149};
  Summarizer summarizer(kSmallestFloat);
  summarizer.add(numbers, {{5, 0, 0}, {1, 2, 7}});
  const capture::StageSummary summary = summarizer.summary();
  EXPECT_EQ(summary.count, 14);
  EXPECT_EQ(summary.finite, 9);
  EXPECT_EQ(summary.nan, 2);
  EXPECT_EQ(summary.positive_infinite, 2);
  EXPECT_EQ(summary.negative_infinite, 1);
  EXPECT_EQ(summary.zeros, 2);
  EXPECT_EQ(summary.subnormal, 2);  // of float32: -2^-126 is normal
  EXPECT_EQ(summary.minimum->value, -7);
  EXPECT_EQ(summary.minimum->index, (std::vector<int64_t>{5, 0, 5}));  // the first of two
  EXPECT_EQ(summary.maximum->value, 3);
  EXPECT_EQ(summary.maximum->index, (std::vector<int64_t>{5, 0, 4}));
  EXPECT_EQ(summary.largest_magnitude, 7);
  EXPECT_DOUBLE_EQ(*summary.mean_magnitude, 20.0 / 9);
}

TEST(Summarizer, OfNothingFinite) {
  Summarizer summarizer(kSmallestFloat);
  EXPECT_EQ(summarizer.summary().count, 0);
  const std::vector<double> numbers{kNan, kInfinity};
  summarizer.add(numbers, {{0}, {2}});
  const capture::StageSummary summary = summarizer.summary();
  EXPECT_EQ(summary.count, 2);
  EXPECT_FALSE(summary.minimum || summary.maximum || summary.mean_magnitude || summary.largest_magnitude);
}

// A mean of numbers whose sum is larger than any number, or far smaller than the largest of them.
TEST(Summarizer, MeanIsExact) {
  const std::vector<double> huge(4, -std::numeric_limits<double>::max());
  Summarizer of_huge(kSmallestFloat);
  of_huge.add(huge, {{0}, {4}});
  EXPECT_EQ(of_huge.summary().mean_magnitude, std::numeric_limits<double>::max());
  std::vector<double> mixed{1e16};
  mixed.resize(1001, 1.0);  // each is lost beside 1e16 if added alone
  Summarizer of_mixed(kSmallestFloat);
  of_mixed.add(mixed, {{0}, {1001}});
  EXPECT_EQ(of_mixed.summary().mean_magnitude, (1e16 + 1000) / 1001);
  const std::vector<double> tiny{5e-324, 15e-324};
  Summarizer of_tiny(std::numeric_limits<double>::min());
  of_tiny.add(tiny, {{0}, {2}});
  EXPECT_EQ(of_tiny.summary().mean_magnitude, 10e-324);
  EXPECT_EQ(of_tiny.summary().subnormal, 2);
}

TEST(Summarizer, PartsInAnyOrder) {
  std::mt19937_64 random(5);
  std::vector<double> numbers(6 * 8), exact(numbers.size());
  for (double& x : numbers) x = std::ldexp(static_cast<double>(random() % 5) - 2, static_cast<int>(random() % 200));
  numbers[4] = numbers[24] = 0x1p500;  // the highest twice, the first of them in the part that comes first
  for (size_t i = 0; i < exact.size(); ++i) exact[i] = i % 11 == 3 ? kNan : numbers[i] + (i % 5 == 0 ? 0.25 : 0);
  Summarizer whole(kSmallestFloat), parts(kSmallestFloat);
  Differences whole_apart, parts_apart;
  whole.add(numbers, {{0, 0}, {6, 8}});
  whole_apart.add(numbers, exact, {{0, 0}, {6, 8}});
  for (const int64_t column : {4, 0, 6, 2}) {
    for (const int64_t row : {3, 0}) {
      std::vector<double> part, exact_part;
      for (int64_t r = row; r < row + 3; ++r) {
        for (int64_t c = column; c < column + 2; ++c) {
          part.push_back(numbers[static_cast<size_t>(8 * r + c)]);
          exact_part.push_back(exact[static_cast<size_t>(8 * r + c)]);
        }
      }
      parts.add(part, {{row, column}, {3, 2}});
      parts_apart.add(part, exact_part, {{row, column}, {3, 2}});
    }
  }
  EXPECT_EQ(text_of(parts.summary()), text_of(whole.summary()));
  EXPECT_EQ(text_of({"", parts.summary(), parts_apart.beside({})}),
            text_of({"", whole.summary(), whole_apart.beside({})}));
}

TEST(Differences, OverNumbersThatAreFiniteInBoth) {
  const std::vector<double> numbers{1, 2, kNan, kNan, kInfinity, kInfinity, 0, 5, 1e-30};
  const std::vector<double> exact{1.5, 1.75, kNan, 4, kInfinity, 1e39, 0, 0, 2e-30};
  Differences differences;
  differences.add(numbers, exact, {{0}, {9}});
  const capture::StageInFloat64 found = differences.beside({});
  EXPECT_EQ(found.differing_finiteness, 2);
  EXPECT_EQ(found.largest_absolute_difference->value, 5);
  EXPECT_EQ(found.largest_absolute_difference->index, (std::vector<int64_t>{7}));
  EXPECT_EQ(found.largest_relative_difference->value, 0.5);  // where float64 is not 0
  EXPECT_EQ(found.largest_relative_difference->index, (std::vector<int64_t>{8}));
}

class StagesOfACall : public InAFolder {
 protected:
  static std::map<std::string, capture::TensorView> inputs_of(const Problem& problem) {
    std::map<std::string, capture::TensorView> inputs;
    const auto add = [&](const char* name, const OwnedTensor& tensor) {
      inputs[name] = {{name, tensor.view.dtype, tensor.view.shape}, tensor.bytes()};
    };
    add("value", problem.value);
    add("spatial_shapes", problem.spatial_shapes);
    add("sampling_locations", problem.sampling_locations);
    add("attention_weights", problem.attention_weights);
    add("grad_output", problem.grad_output);
    return inputs;
  }
  static capture::CallFacts facts_of(const Problem& problem) {
    capture::CallFacts facts;
    facts.dialect = msda_dialect_name(problem.conventions.dialect);
    facts.padding_mode = msda_padding_name(problem.conventions.padding);
    facts.align_corners = problem.conventions.align_corners;
    return facts;
  }
  capture::Reader record(const Problem& problem, bool full, int64_t memory) {
    const std::string path = folder + "/a.h5";
    capture::Writer writer(path, capture::Writer::IfExists::kReplace, "");
    writer.begin_invocation(facts_of(problem));
    add_stages(facts_of(problem), inputs_of(problem), full, memory, writer);
    writer.close();
    return capture::Reader(path);
  }

  const std::string folder = folder_.string();
};

// With any amount of memory, down to a sample at a time, and a channel of a level at a time, the file has the same
// content: the bits that the C ABI gives for the whole call.
TEST_F(StagesOfACall, DoNotDependOnTheParts) {
  uint64_t seed = 0;
  for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_FLOAT16, MSDA_FLOAT64}) {
    for (const analysis::Conventions& conventions : all_conventions()) {
      const Problem problem =
          make_problem({2, 3, 5, 7, 2, {{4, 3}, {1, 5}, {2, 2}}}, conventions, dtype, ++seed, Locations::kAnywhere);
      const auto abi = analysis::abi_call(problem.call());
      const msda_dtype arithmetic = analysis::arithmetic_of(dtype);
      std::vector<std::string> summaries;
      for (const int64_t memory : {int64_t{1} << 30, int64_t{40000}, int64_t{3000}, int64_t{1}}) {
        const capture::Reader reader = record(problem, true, memory);
        const auto stages = reader.invocation(0).stages;
        ASSERT_EQ(stages.size(), 9u);
        std::string summary;
        for (size_t i = 0; i < stages.size(); ++i) {
          const auto stage = static_cast<msda_stage_id>(i);
          ASSERT_EQ(stages[i].name, msda_stage_name(stage));
          ASSERT_TRUE(stages[i].full && stages[i].facts);
          EXPECT_EQ(stages[i].facts->float64.has_value(), arithmetic == MSDA_FLOAT32);
          EXPECT_EQ(kernels::name_of(stages[i].full->type), stages[i].facts->arithmetic);
          OwnedTensor whole = OwnedTensor::for_result(arithmetic, stages[i].full->shape);
          const msda_tensor result = whole.abi();
          ASSERT_EQ(msda_stage(&abi.call, &abi.grad_output, nullptr, stage, &result), MSDA_OK) << msda_last_error();
          const capture::Tensor read = reader.read(*stages[i].full);
          EXPECT_TRUE(std::ranges::equal(read.bytes(), whole.bytes()))
              << stages[i].name << " in " << memory << " bytes\n"
              << problem.text();
          EXPECT_EQ(stages[i].full->digest, capture::digest(whole.bytes()));
          summary += stages[i].name + "\n" + text_of(*stages[i].facts);
        }
        summaries.push_back(summary);
        EXPECT_EQ(summary, summaries[0]) << memory << "\n" << problem.text();
      }
      const capture::Reader without = record(problem, false, 3000);
      std::string summary;
      for (const auto& stage : without.invocation(0).stages) {
        EXPECT_FALSE(stage.full);
        summary += stage.name + "\n" + text_of(*stage.facts);
      }
      EXPECT_EQ(summary, summaries[0]);
    }
  }
}

TEST_F(StagesOfACall, OfEmptyTensors) {
  for (const Sizes& sizes :
       {Sizes{1, 2, 0, 3, 2, {{2, 3}}}, Sizes{1, 2, 4, 0, 2, {{2, 3}}}, Sizes{0, 2, 4, 3, 2, {{2, 3}}},
        Sizes{1, 2, 4, 3, 0, {{2, 3}}}, Sizes{1, 2, 4, 3, 2, {}}}) {
    const Problem problem =
        make_problem(sizes, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 1, Locations::kInside);
    const capture::Reader reader = record(problem, true, 1);
    for (const auto& stage : reader.invocation(0).stages) {
      EXPECT_EQ(stage.facts->summary.count, stage.full->elements());
      EXPECT_EQ(reader.digest_of(*stage.full), stage.full->digest);
    }
  }
}

// What a call must have to have stages.
TEST_F(StagesOfACall, Refusals) {
  const Problem problem =
      make_problem({1, 2, 4, 3, 2, {{2, 3}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 1);
  capture::Writer writer(folder + "/a.h5", capture::Writer::IfExists::kReplace, "");
  writer.begin_invocation({});
  const auto expect_refused = [&](const capture::CallFacts& facts,
                                  const std::map<std::string, capture::TensorView>& inputs, const char* message) {
    EXPECT_THAT([&] { add_stages(facts, inputs, true, kStageMemory, writer); },
                ThrowsMessage<NoStages>(HasSubstr(message)));
  };
  expect_refused({}, inputs_of(problem), "its conventions are not known");
  auto inputs = inputs_of(problem);
  inputs.erase("grad_output");
  expect_refused(facts_of(problem), inputs, "there is no grad_output");
  inputs = inputs_of(problem);
  inputs["value"].type = kernels::kUInt8;
  expect_refused(facts_of(problem), inputs, "value has type uint8");
  inputs = inputs_of(problem);
  inputs["value"].type = MSDA_INT32;
  expect_refused(facts_of(problem), inputs, "value has type int32, not a floating-point one");
  inputs = inputs_of(problem);
  inputs["value"].shape[0] = int64_t{1} << 62;
  expect_refused(facts_of(problem), inputs, "value has not the size of its shape");
  inputs = inputs_of(problem);
  inputs["value"].bytes = inputs["value"].bytes.first(4);
  expect_refused(facts_of(problem), inputs, "value has not the size of its shape");
  inputs = inputs_of(problem);
  inputs["grad_output"] = inputs["attention_weights"];
  expect_refused(facts_of(problem), inputs, "grad_output has rank 5, not 4");
  capture::CallFacts facts = facts_of(problem);
  facts.dialect = "deformable_detr";
  facts.padding_mode = "border";
  expect_refused(facts, inputs_of(problem), "deformable_detr supports padding zeros");
}

// In a whole recording: calls that can have stages have them; others are written without and reported by kernel.
TEST_F(StagesOfACall, InARecording) {
  const Problem problem =
      make_problem({1, 2, 4, 3, 2, {{2, 3}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 1);
  spool::Appender spool;
  ASSERT_EQ(spool.open(folder + "/a.spool"), 0);
  uint64_t number = 0;
  for (const auto& [kernel, dialect] :
       {std::pair{"other", ""}, {"bwd", "msda_triton"}, {"other", ""}, {"newer", "msda_trident"}}) {
    spool.append(spool::Begin{{{{"kernel", kernel}, {"dialect", dialect}}}, number, 0, {}, {}});
    for (const auto& [name, view] : inputs_of(problem)) {
      spool::Tensor tensor;
      tensor.invocation = number;
      tensor.section = "inputs";
      tensor.description = {name, view.type, view.shape, {}};
      spool.append(tensor, view.bytes);
    }
    spool.append(spool::End{number++, 0});
  }
  Builder::Settings settings;
  settings.spool = folder + "/a.spool";
  settings.output = folder + "/a.h5";
  settings.stages = Stages::kFull;
  Builder builder(settings);
  builder.finish();
  EXPECT_EQ(builder.invocations(), 4);
  ASSERT_EQ(builder.stageless().size(), 2u);
  EXPECT_EQ(builder.stageless().at("other").count, 2);
  EXPECT_EQ(builder.stageless().at("other").why, "its conventions are not known");
  EXPECT_EQ(builder.stageless().at("newer").count, 1);
  const capture::Reader reader(settings.output);
  for (const int64_t id : reader.invocation_ids()) {
    const capture::Invocation invocation = reader.invocation(id);
    EXPECT_EQ(invocation.inputs.size(), 5u);
    EXPECT_EQ(invocation.stages.size(), id == 1 ? 9u : 0u);
  }
}

}  // namespace
}  // namespace msda::tests
