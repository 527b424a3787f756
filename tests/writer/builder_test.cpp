// Which calls --keep last:K keeps, what a later call with equal inputs replaces, and where captures end.
#include "recorder/writer/builder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "recorder/capture/reader.h"
#include "recorder/spool/appender.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

namespace fs = std::filesystem;
using namespace msda::spool;
using record::Builder;

class BuilderTest : public InAFolder {
 protected:
  void SetUp() override {
    settings_.spool = folder_ / "a.spool";
    settings_.output = folder_ / "a.h5";
    settings_.release = false;
    ASSERT_EQ(spool_.open(settings_.spool), 0);
  }

  // Tensors are one byte; without `before` there is no outputs_before.
  void call(uint64_t invocation, uint32_t attempt, int output, std::optional<int> before = {}) {
    Begin begin;
    begin.invocation = invocation;
    begin.attempt = attempt;
    begin.texts = {{"kernel", "k"}, {"label", std::to_string(invocation)}};
    if (!kernel_digest_.empty()) begin.texts["kernel_digest"] = kernel_digest_;
    spool_.append(begin);
    if (attempt == 0) tensor(invocation, attempt, "inputs", 1);
    if (before) tensor(invocation, attempt, "outputs_before", *before);
    tensor(invocation, attempt, "outputs", output);
    spool_.append(End{invocation, attempt});
  }
  void tensor(uint64_t invocation, uint32_t attempt, const char* section, int value) {
    Tensor tensor;
    tensor.invocation = invocation;
    tensor.attempt = attempt;
    tensor.section = section;
    tensor.description = {"x", kernels::kUInt8, {1}, {}};
    const std::byte byte{static_cast<unsigned char>(value)};
    spool_.append(tensor, std::span(&byte, 1));
  }

  struct Read {
    std::string label;
    int output = -1, before = -1;
    bool operator==(const Read&) const = default;
  };
  std::vector<Read> written(int64_t keep_last) {
    settings_.keep_last = keep_last;
    {
      Builder builder(settings_);
      builder.finish();
    }
    return read(settings_.output);
  }
  static std::vector<Read> read(const std::string& path) {
    std::vector<Read> calls;
    const capture::Reader reader(path);
    const auto byte = [&](const std::vector<capture::TensorInfo>& tensors) {
      return tensors.empty() ? -1 : std::to_integer<int>(reader.read(tensors.at(0)).bytes()[0]);
    };
    for (const int64_t id : reader.invocation_ids()) {
      const auto invocation = reader.invocation(id);
      calls.push_back({invocation.facts.label, byte(invocation.outputs), byte(invocation.outputs_before)});
    }
    return calls;
  }
  std::string kernel_digest_;
  Builder::Settings settings_;
  Appender spool_;
};

// As two threads may deliver functions of one image: the image comes with the second.
TEST_F(BuilderTest, AnImageMayComeWithAnyOfItsFunctions) {
  const std::byte image[] = {std::byte{7}, std::byte{8}};
  kernel_digest_ = "digest";
  spool_.append(Kernel{kernel_digest_, "k", "sm_90", {{"registers", 1}}});
  call(0, 0, 10);
  spool_.append(Kernel{kernel_digest_, "other", "sm_90", {{"registers", 2}}}, std::span(image));
  call(1, 0, 11);
  EXPECT_EQ(written(0).size(), 2u);
  const capture::Reader reader(settings_.output);
  auto kernels = reader.kernels();
  capture::share_images(kernels);
  for (const int64_t id : reader.invocation_ids()) {
    const auto code = capture::code_of(reader.invocation(id).facts, kernels);
    ASSERT_TRUE(code);
    EXPECT_EQ(code->facts.at("registers"), 1);
    EXPECT_TRUE(std::ranges::equal(std::span<const std::byte>(code->image), image));
  }
}

class CutTest : public BuilderTest, public testing::WithParamInterface<int64_t> {};

TEST_P(CutTest, EndsCapturesWhereTheTargetDoes) {
  settings_.cuts = settings_.release = true;
  settings_.keep_last = GetParam();
  const fs::path output = settings_.output, kept = folder_ / "kept.h5";
  Builder builder(settings_);
  const std::byte image{7};
  kernel_digest_ = "digest";
  spool_.append(Kernel{kernel_digest_, "k", "sm_90", {}}, std::span(&image, 1));
  spool_.append(Seed{"early", "libc", 1});
  spool_.append(Seed{"late", "libc", 2});
  spool_.append(Seed{"other", "curand", 3});
  call(0, 0, 10);
  call(1, 0, 11);
  spool_.append(Cut{1, true});
  builder.follow();
  EXPECT_EQ(builder.last_cut().number, 1u);
  EXPECT_EQ(builder.last_cut().invocations, 2);
  fs::rename(output, kept);
  EXPECT_EQ(read(kept), (std::vector<Read>{{"0", 10}, {"1", 11}}));

  call(2, 0, 12);  // discarded after it was written
  EXPECT_FALSE(builder.follow());
  spool_.append(Cut{2, false});
  EXPECT_TRUE(builder.follow());
  call(3, 0, 13);  // discarded while it was held
  EXPECT_FALSE(builder.follow());
  spool_.append(Cut{3, false});
  EXPECT_TRUE(builder.follow());
  EXPECT_FALSE(builder.follow());
  EXPECT_FALSE(fs::exists(output));
  EXPECT_EQ(builder.last_cut().number, 1u);

  call(0, 1, 14);  // lost: the call that it would replace is in an earlier capture
  call(4, 0, 15);
  builder.finish();
  EXPECT_EQ(read(output), (std::vector<Read>{{"4", 15}}));
  for (const auto& path : {kept, output}) {
    const capture::Reader reader(path.string());
    EXPECT_EQ(reader.kernels().size(), 1u) << path;
    EXPECT_TRUE(reader.verify().differences.empty());
    const auto seeds = reader.seeds();
    ASSERT_EQ(seeds.size(), path == kept ? 3u : 2u);
    EXPECT_EQ(seeds.at(seeds.size() - 2).value, 2u);  // the last of its source
    EXPECT_EQ(seeds.at(seeds.size() - 2).invocation, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(KeepLast, CutTest, testing::Values(0, 2));

TEST_F(BuilderTest, WritesNothingThatIsDiscardedFurtherOn) {
  settings_.cuts = true;
  std::ofstream(settings_.output) << "in the way of a capture";
  Builder builder(settings_);
  call(0, 0, 10);
  call(1, 0, 11);
  spool_.append(Cut{1, false});
  EXPECT_TRUE(builder.follow());
}

TEST_F(BuilderTest, CountsTheCallsOfAllCompletedCaptures) {
  settings_.cuts = settings_.force = true;
  Builder builder(settings_);
  for (uint64_t cut = 1; cut <= 2; ++cut) {
    call(2 * cut, 0, 10);
    call(2 * cut + 1, 0, 11);
    spool_.append(Cut{cut, true});
  }
  for (int cuts = 1; cuts <= 2; ++cuts) {  // the target awaits an answer to each, however much follows
    EXPECT_TRUE(builder.follow());
    EXPECT_EQ(builder.completed(), 2 * cuts);
  }
  EXPECT_FALSE(builder.follow());
}

TEST_F(BuilderTest, MakesOneCaptureOfAllCallsIfItIsNotToldToCut) {
  call(0, 0, 10);
  spool_.append(Cut{1, false});
  call(1, 0, 11);
  spool_.append(Cut{2, true});
  EXPECT_EQ(written(0), (std::vector<Read>{{"0", 10}, {"1", 11}}));
}

TEST_F(BuilderTest, HoldsWhatTheTargetDoesNotDrop) {
  call(0, 0, 10);
  call(1, 0, 11);
  call(0, 1, 12);  // again, with other outputs
  spool_.append(Drop{1});
  call(2, 0, 13);
  call(1, 1, 14);  // nobody's: it was dropped
  EXPECT_EQ(written(2), (std::vector<Read>{{"0", 12}, {"2", 13}}));
}

TEST_F(BuilderTest, WritesWhatIsHeldInTheOrderOfTheFirstCalls) {
  call(3, 0, 10);
  call(1, 0, 11);
  call(3, 1, 12);
  EXPECT_EQ(written(2), (std::vector<Read>{{"1", 11}, {"3", 12}}));
}

TEST_F(BuilderTest, WhatTheBuffersHeldIsThatOfTheCallThatIsKept) {
  call(0, 0, 10, 1);
  call(0, 1, 11, 2);
  EXPECT_EQ(written(0), (std::vector<Read>{{"0", 11, 2}}));
  settings_.force = true;
  EXPECT_EQ(written(3), (std::vector<Read>{{"0", 11, 2}}));
}

}  // namespace
}  // namespace msda::tests
