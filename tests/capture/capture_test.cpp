// Capture files: everything written is read back, and the writer refuses invalid input.
#include "recorder/capture/capture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "recorder/capture/digest.h"
#include "recorder/capture/isolated_reader.h"
#include "recorder/capture/reader.h"
#include "recorder/capture/writer.h"
#include "tests/capture/capture_file.h"

namespace msda::tests {
namespace {

// A small file of many groups must not fill the memory.
TEST_F(CaptureFile, FunctionsOfAnImageShareItsBytes) {
  constexpr int kFunctions = 1000;
  {
    Writer writer(path, Writer::IfExists::kRefuse, "9.9");
    writer.add_kernel({"xxh3-128:a", "without", "sm_90", {}, {}});
    for (int i = 0; i < kFunctions; ++i) {
      const std::vector<std::byte> image(i == 0 ? 8 << 20 : 0, std::byte{1});
      writer.add_kernel({"xxh3-128:a", "f" + std::to_string(i), "sm_90", {{"registers", i}}, image});
    }
    writer.begin_invocation(CallFacts{});
    writer.close();
  }
  const auto kernels = IsolatedReader(path).kernels();
  ASSERT_EQ(kernels.size(), kFunctions + 1u);
  for (const KernelImage& kernel : kernels) {
    ASSERT_EQ(kernel.image.size(), 8u << 20);
    ASSERT_EQ(kernel.image.data(), kernels.front().image.data());
  }
}

TEST_F(CaptureFile, GivesBackEverything) {
  const std::vector<float> value{1, 2, 3, 4}, before{9, 9, 9, 9};
  const std::vector<uint16_t> half{0x3c00, 0x7e01, 0xfc00, 0x0001};
  capture::Run run;
  run.argv = {"python3", "-m", "pytest", "with space", "ümlaut"};
  run.environment = {{"CUDA_VISIBLE_DEVICES", "0"}, {"EMPTY", ""}};
  run.libraries = {{"libtorch", "2.11"}};
  run.facts = {{"host", "here"}, {"gpu", "NVIDIA H200"}};
  const std::vector<Seed> seeds{{"2026-11-21T00:00:00Z", "torch_cuda", 0xfedcba9876543210, 1}, {"", "libc", 1, {}}};
  KernelImage kernel{
      digest(std::as_bytes(std::span(value))), "kernel<float>", "sm_90", {{"registers", 32}, {"atomics", 4}}, {}};
  kernel.image = std::vector<std::byte>(5, std::byte{0x7f});
  CallFacts facts;
  facts.kernel = "kernel<float>";
  facts.kernel_digest = kernel.digest;
  facts.dialect = "grid_sample";
  facts.padding_mode = "zeros";
  facts.align_corners = true;
  facts.grid = {1000, 4, 8};
  facts.block = {128, 1, 1};
  facts.shared_bytes = 0;
  facts.stream = 7;
  facts.device = 1;
  facts.process = 4711;
  facts.thread = 4712;
  facts.duplicates = 4000;
  facts.distinct_outputs = 17;
  facts.time = "2026-11-21T01:02:03Z";
  facts.label = "test_backward";
  facts.tolerance = {{1e-3, 1e-2}};
  Parameters parameters{{std::byte{1}, std::byte{2}, std::byte{3}}, {0, 1}, {1, 2}};
  {
    Writer writer(path, Writer::IfExists::kRefuse, "9.9");
    writer.write_run(run, seeds);
    writer.add_kernel(kernel);
    EXPECT_EQ(writer.begin_invocation(facts, parameters), 0);
    writer.add_input({{"value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(value)});
    writer.add_output({{"grad_value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(value)});
    writer.add_output_before({{"grad_value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(before)});
    writer.add_result({"reference", "reference", "msda_triton"},
                      {{{"grad_value", MSDA_FLOAT16, {1, 2, 1, 2}}, std::as_bytes(std::span(half))}});
    writer.flush();
    EXPECT_EQ(writer.begin_invocation(CallFacts{}), 1);
    writer.add_input({{"value", MSDA_BFLOAT16, {1, 2, 1, 2}}, std::as_bytes(std::span(half))});
    writer.add_input({{"grad_output", MSDA_FLOAT64, {0, 3, 1, 2}}, {}});
    writer.close();
  }
  const IsolatedReader reader(path);
  EXPECT_EQ(reader.tool_version(), "9.9");
  EXPECT_EQ(reader.created().size(), 20u);
  EXPECT_EQ(reader.run().argv, run.argv);
  EXPECT_EQ(reader.run().environment, run.environment);
  EXPECT_EQ(reader.run().libraries, run.libraries);
  EXPECT_EQ(reader.run().facts, run.facts);
  ASSERT_EQ(reader.seeds().size(), 2u);
  EXPECT_EQ(reader.seeds()[0].source, "torch_cuda");
  EXPECT_EQ(reader.seeds()[0].time, seeds[0].time);
  EXPECT_EQ(reader.seeds()[0].value, seeds[0].value);
  EXPECT_EQ(reader.seeds()[0].invocation, 1);
  EXPECT_EQ(reader.seeds()[1].invocation, std::nullopt);
  ASSERT_EQ(reader.kernels().size(), 1u);
  EXPECT_EQ(reader.kernels()[0].digest, kernel.digest);
  EXPECT_EQ(reader.kernels()[0].architecture, "sm_90");
  EXPECT_EQ(reader.kernels()[0].facts, kernel.facts);
  EXPECT_TRUE(std::ranges::equal(std::span<const std::byte>(reader.kernels()[0].image),
                                 std::span<const std::byte>(kernel.image)));
  EXPECT_EQ(reader.invocation_ids(), (std::vector<int64_t>{0, 1}));

  const Invocation first = reader.invocation(0);
  EXPECT_EQ(first.facts.kernel, facts.kernel);
  EXPECT_EQ(first.facts.kernel_digest, facts.kernel_digest);
  EXPECT_EQ(first.facts.dialect, facts.dialect);
  EXPECT_EQ(first.facts.padding_mode, facts.padding_mode);
  EXPECT_TRUE(first.facts.align_corners);
  EXPECT_EQ(first.facts.grid, facts.grid);
  EXPECT_EQ(first.facts.block, facts.block);
  EXPECT_EQ(first.facts.shared_bytes, 0);
  EXPECT_EQ(first.facts.stream, 7);
  EXPECT_EQ(first.facts.device, 1);
  EXPECT_EQ(first.facts.process, 4711);
  EXPECT_EQ(first.facts.thread, 4712);
  EXPECT_EQ(first.facts.duplicates, 4000);
  EXPECT_EQ(first.facts.distinct_outputs, 17);
  EXPECT_EQ(first.facts.time, facts.time);
  EXPECT_EQ(first.facts.label, facts.label);
  ASSERT_TRUE(first.facts.tolerance);
  EXPECT_EQ(first.facts.tolerance->atol, 1e-3);
  EXPECT_EQ(first.facts.tolerance->rtol, 1e-2);
  EXPECT_EQ(first.parameters.bytes, parameters.bytes);
  EXPECT_EQ(first.parameters.offsets, parameters.offsets);
  EXPECT_EQ(first.parameters.sizes, parameters.sizes);
  const Tensor value_read = reader.read(first.inputs.at(0));
  EXPECT_EQ(std::memcmp(value_read.data.get(), value.data(), 16), 0);
  EXPECT_EQ(first.inputs[0].digest, digest(bytes_of(value)));
  ASSERT_EQ(first.outputs_before.size(), 1u);
  ASSERT_NE(first.reference(), nullptr);
  EXPECT_EQ(first.reference()->facts.dialect, "msda_triton");
  const Tensor half_read = reader.read(first.reference()->tensors.at(0));
  EXPECT_EQ(half_read.info.type, MSDA_FLOAT16);
  EXPECT_EQ(std::memcmp(half_read.data.get(), half.data(), 8), 0);

  const Invocation second = reader.invocation(1);
  EXPECT_FALSE(second.facts.tolerance);
  EXPECT_FALSE(second.facts.grid);
  EXPECT_EQ(find(second.inputs, "value")->type, MSDA_BFLOAT16);
  EXPECT_EQ(std::memcmp(reader.read(*find(second.inputs, "value")).data.get(), half.data(), 8), 0);
  EXPECT_EQ(find(second.inputs, "grad_output")->shape, (std::vector<int64_t>{0, 3, 1, 2}));
  expect_as_written();
}

// A kernel of another operator: names that the format defines have no meaning there.
TEST_F(CaptureFile, KernelsOfOtherOperators) {
  const std::vector<float> data{1, 2, 3, 4};
  CallFacts facts;
  facts.kernel = "kernel";
  facts.texts = {{"padding_mode", "reflection"}, {"adapter", "mine"}, {"grid", "not a grid"}};
  facts.integers = {{"align_corners", 1}, {"adapter", 7}, {"rows", -3}};
  facts.reals = {{"scale", 0.1}, {"shared_bytes", 0.5}, {"rows", 2}};
  facts.flags = {{"aligned", true}, {"wraps", false}, {"stream", true}};
  CallFacts ours = facts;
  ours.dialect = "msda_triton";
  ours.padding_mode = "zeros";
  {
    Writer writer(path, Writer::IfExists::kRefuse, "");
    for (const CallFacts& each : {facts, ours}) {
      writer.begin_invocation(each);
      writer.add_input({{"value", MSDA_FLOAT32, {2, 2}}, bytes_of(data)});
      writer.add_output({{"x", kernels::kUInt8, {16}}, bytes_of(data)});
    }
    writer.close();
  }
  const IsolatedReader reader(path);
  const Invocation another = reader.invocation(0);
  EXPECT_EQ(another.facts.dialect, "");
  EXPECT_EQ(another.facts.padding_mode, "");
  EXPECT_FALSE(another.facts.grid);
  EXPECT_EQ(another.facts.texts,
            (std::map<std::string, std::string>{{"padding_mode", "reflection"}, {"adapter", "mine"}}));
  EXPECT_EQ(another.facts.integers, (std::map<std::string, int64_t>{{"align_corners", 1}, {"rows", -3}}));
  EXPECT_EQ(another.facts.reals, (std::map<std::string, double>{{"scale", 0.1}}));
  EXPECT_EQ(another.facts.flags, (std::map<std::string, bool>{{"aligned", true}, {"wraps", false}}));
  EXPECT_EQ(find(another.inputs, "value")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(find(another.outputs, "x")->type, kernels::kUInt8);
  EXPECT_THAT([&] { reader.invocation(1); }, ThrowsMessage<Error>(HasSubstr("value has rank 2, not 4")));
}

// The parts of a stage come in any order; the summary says what it was given.
TEST_F(CaptureFile, GivesBackStages) {
  StageFacts facts;
  facts.arithmetic = "float32";
  facts.summary = {12, 9, 1, 2, 0, 3, 4, Extreme{-2.5, {0, 1, 0, 2}}, Extreme{0x1p-140, {0, 0, 0, 0}}, 0.75, 2.5};
  facts.float64.emplace();
  facts.float64->summary.count = 12;
  facts.float64->summary.nan = 12;  // no finite number: no extremes
  facts.float64->largest_absolute_difference = Extreme{1e-300, {0, 1, 0, 1}};
  facts.float64->differing_finiteness = 5;
  std::vector<float> numbers(12);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + 0.5f;
  {
    Writer writer(path, Writer::IfExists::kRefuse, "");
    writer.begin_invocation({});
    writer.begin_stage("grad_value", MSDA_FLOAT32, {1, 2, 1, 6});
    writer.begin_stage("cell", MSDA_FLOAT64, {0, 1, 1, 1, 1, 2});
    for (const int64_t half : {3, 0}) {  // columns of both rows
      std::vector<float> box;
      for (int64_t i : {0, 6}) box.insert(box.end(), numbers.begin() + i + half, numbers.begin() + i + half + 3);
      writer.add_stage_part("grad_value", {0, 0, 0, half}, {{"", MSDA_FLOAT32, {1, 2, 1, 3}}, bytes_of(box)});
    }
    writer.add_stage_facts("grad_value", facts);
    writer.end_stage("grad_value");
    writer.end_stage("cell");
    writer.add_stage_facts("pixel_coordinates", StageFacts{"float64", {}, {}});
    writer.begin_invocation({});
    writer.begin_stage("cell", MSDA_FLOAT32, {1, 1, 1, 1, 1, 2});
    writer.drop_stages();
    writer.close();
  }
  const IsolatedReader reader(path);
  EXPECT_TRUE(reader.invocation(1).stages.empty());
  const auto stages = reader.invocation(0).stages;
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].name, "pixel_coordinates");  // in the order of computation, not alphabetical
  ASSERT_TRUE(stages[0].facts);
  EXPECT_EQ(stages[0].facts->arithmetic, "float64");
  EXPECT_EQ(stages[0].facts->summary.count, 0);
  EXPECT_FALSE(stages[0].facts->float64);
  EXPECT_FALSE(stages[0].full);
  EXPECT_EQ(stages[1].name, "cell");
  EXPECT_FALSE(stages[1].facts);
  EXPECT_EQ(stages[1].full->elements(), 0);
  ASSERT_TRUE(stages[2].full && stages[2].facts);
  const Tensor read = reader.read(*stages[2].full);
  EXPECT_EQ(stages[2].full->digest, digest(bytes_of(numbers)));
  EXPECT_EQ(std::memcmp(read.data.get(), numbers.data(), 48), 0);
  const StageSummary& summary = stages[2].facts->summary;
  EXPECT_EQ(summary.count, 12);
  EXPECT_EQ(summary.finite, 9);
  EXPECT_EQ(summary.nan, 1);
  EXPECT_EQ(summary.positive_infinite, 2);
  EXPECT_EQ(summary.negative_infinite, 0);
  EXPECT_EQ(summary.zeros, 3);
  EXPECT_EQ(summary.subnormal, 4);
  EXPECT_EQ(summary.minimum->value, -2.5);
  EXPECT_EQ(summary.minimum->index, (std::vector<int64_t>{0, 1, 0, 2}));
  EXPECT_EQ(summary.maximum->value, 0x1p-140);
  EXPECT_EQ(summary.mean_magnitude, 0.75);
  EXPECT_EQ(summary.largest_magnitude, 2.5);
  const auto& beside = *stages[2].facts->float64;
  EXPECT_EQ(beside.summary.nan, 12);
  EXPECT_FALSE(beside.summary.minimum || beside.summary.mean_magnitude || beside.largest_relative_difference);
  EXPECT_EQ(beside.largest_absolute_difference->value, 1e-300);
  EXPECT_EQ(beside.largest_absolute_difference->index, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(beside.differing_finiteness, 5);
}

TEST_F(CaptureFile, WriterRefusesPartsThatDoNotFit) {
  Writer writer(path, Writer::IfExists::kRefuse, "");
  const std::vector<float> two{1, 2};
  const TensorView part{{"", MSDA_FLOAT32, {1, 2}}, bytes_of(two)};
  EXPECT_THAT(([&] { writer.begin_stage("cell", MSDA_FLOAT32, {1, 2}); }), Throws<Error>());
  writer.begin_invocation({});
  EXPECT_THAT(([&] { writer.add_stage_part("cell", {0, 0}, part); }), ThrowsMessage<Error>(HasSubstr("was not begun")));
  writer.begin_stage("cell", MSDA_FLOAT32, {2, 3});
  for (const std::vector<int64_t>& offset : {std::vector<int64_t>{0, 2}, {2, 0}, {-1, 0}, {0}, {0, 0, 0}}) {
    EXPECT_THAT([&] { writer.add_stage_part("cell", offset, part); },
                ThrowsMessage<Error>(HasSubstr("/invocations/000000/stages/cell/full is no part of it")));
  }
  EXPECT_THAT(([&] {
                writer.add_stage_part("cell", {0, 0}, {{"", MSDA_INT32, {1, 2}}, bytes_of(two)});
              }),
              Throws<Error>());
  EXPECT_THAT(([&] {
                writer.add_stage_part("cell", {0, 0}, {{"", MSDA_FLOAT32, {2, 2}}, bytes_of(two)});
              }),
              ThrowsMessage<Error>(HasSubstr("has 8 bytes, its shape wants 16")));
  EXPECT_THAT(([&] {
                writer.add_stage_part("cell", {0, 0}, {{"", MSDA_FLOAT32, {1ll << 62, 1ll << 62}}, {}});
              }),
              Throws<Error>());
}

// Larger than what is digested at a time, and divided within a dimension.
TEST_F(CaptureFile, DigestsLargeDatasetsInPieces) {
  constexpr int64_t kLast = 1'500'000;
  std::vector<float> numbers(6 * kLast);
  std::mt19937 random(7);
  for (float& number : numbers) number = static_cast<float>(random());
  {
    Writer writer(path, Writer::IfExists::kRefuse, "");
    writer.begin_invocation({});
    writer.begin_stage("other", MSDA_FLOAT32, {2, 3, kLast});
    for (const int64_t i : {1, 0}) {
      writer.add_stage_part(
          "other", {i, 0, 0},
          {{"", MSDA_FLOAT32, {1, 3, kLast}},
           bytes_of(numbers).subspan(static_cast<size_t>(i * 12 * kLast), static_cast<size_t>(12 * kLast))});
    }
    writer.end_stage("other");
    writer.close();
  }
  const Reader reader(path);
  const TensorInfo info = *reader.invocation(0).stages.at(0).full;
  EXPECT_EQ(info.digest, digest(bytes_of(numbers)));
  EXPECT_EQ(reader.digest_of(info), info.digest);
}

TEST_F(CaptureFile, IsItsOwnersAlone) {
  const mode_t old = umask(0);
  write_small();
  umask(old);
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(CaptureFile, ReplacesNothingUnasked) {
  write_small();
  EXPECT_THAT([&] { Writer(path, Writer::IfExists::kRefuse, ""); }, ThrowsMessage<Error>(HasSubstr("exists")));
  read_all();
}

TEST_F(CaptureFile, FollowsNoLink) {
  const std::string target = folder + "/precious";
  std::ofstream(target) << "precious";
  ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
  for (const auto if_exists : {Writer::IfExists::kRefuse, Writer::IfExists::kReplace}) {
    EXPECT_THAT([&] { Writer(path, if_exists, ""); }, Throws<Error>());
  }
  EXPECT_EQ(std::filesystem::file_size(target), 8u);
}

TEST_F(CaptureFile, WriterRefusesBytesThatDoNotFitTheShape) {
  Writer writer(path, Writer::IfExists::kRefuse, "");
  const std::vector<float> value{1, 2, 3};
  EXPECT_THAT(
      [&] {
        writer.add_input({{"value", MSDA_FLOAT32, {1, 1, 1, 3}}, bytes_of(value)});
      },
      ThrowsMessage<Error>(HasSubstr("before the first invocation")));
  writer.begin_invocation({});
  EXPECT_THAT(
      [&] {
        writer.add_input({{"value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(value)});
      },
      ThrowsMessage<Error>(HasSubstr("has 12 bytes, its shape wants 16")));
}

TEST_F(CaptureFile, CrashOfTheWriterLeavesWhatWasFlushed) {
  const std::vector<float> value{1, 2, 3, 4};
  const pid_t child = fork();
  if (child == 0) {
    Writer writer(path, Writer::IfExists::kRefuse, "");
    writer.begin_invocation({});
    writer.add_input({{"value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(value)});
    writer.flush();
    writer.begin_invocation({});
    _exit(0);  // without closing
  }
  int status = 0;
  waitpid(child, &status, 0);
  const Reader reader(path);
  EXPECT_EQ(reader.read(reader.invocation(0).inputs.at(0)).info.elements(), 4);
}

// Runs in a child, because a limit cannot be undone: after a failure the file keeps the state of the last flush.
TEST_F(CaptureFile, WhatCannotBeWrittenLeavesWhatWasFlushed) {
  const std::vector<float> value{1, 2, 3, 4}, large(1 << 20, 1.5f);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    bool failed = false;
    try {
      Writer writer(path, Writer::IfExists::kRefuse, "");
      writer.begin_invocation({});
      writer.add_input({{"value", MSDA_FLOAT32, {1, 2, 1, 2}}, bytes_of(value)});
      writer.flush();
      const rlimit limit{1 << 19, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &limit);
      if (writer.reserve(1 << 20)) _exit(2);
      if (!writer.reserve(1 << 16)) _exit(3);
      writer.begin_invocation({});
      writer.begin_stage("grad_value", MSDA_FLOAT32, {1, 1 << 18, 1, 4});
      writer.add_input({{"value", MSDA_FLOAT32, {1, 1 << 18, 1, 4}}, bytes_of(large)});
    } catch (const Error&) {
      failed = true;
    }
    exit(failed ? 0 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const Reader reader(path);
  const Invocation first = reader.invocation(0);
  EXPECT_EQ(reader.digest_of(first.inputs.at(0)), digest(bytes_of(value)));
}

TEST_F(CaptureFile, ReservesUpToTheNextFlush) {
  Writer writer(path, Writer::IfExists::kRefuse, "");
  const auto blocks = [this] {
    struct stat file {};
    EXPECT_EQ(stat(path.c_str(), &file), 0);
    return file.st_blocks * 512;
  };
  EXPECT_TRUE(writer.reserve(1 << 20));
  EXPECT_GE(blocks(), 1 << 20);
  EXPECT_TRUE(writer.reserve(1 << 20));  // the same space, not more
  EXPECT_LT(blocks(), 3 << 19);
  EXPECT_FALSE(writer.reserve(int64_t{1} << 62));
  writer.begin_invocation({});
  writer.close();
  EXPECT_LT(blocks(), 1 << 16);
  EXPECT_EQ(Reader(path).invocation_ids().size(), 1u);
}

TEST(Digest, IsXxh3) {
  // From the reference implementation, for no bytes and for "abc".
  EXPECT_EQ(digest({}), "xxh3-128:99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest(std::as_bytes(std::span("abc", 3))), "xxh3-128:06b05ab6733a618578af5f94892f3950");
}

}  // namespace
}  // namespace msda::tests
