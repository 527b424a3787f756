// Which calls --keep last:K keeps, and what a later call with equal inputs replaces.
#include "recorder/writer/builder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "recorder/capture/reader.h"
#include "recorder/spool/appender.h"

namespace msda::tests {
namespace {

namespace fs = std::filesystem;
using namespace msda::spool;
using record::Builder;

class BuilderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "builder-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    settings_.spool = folder_ / "a.spool";
    settings_.output = folder_ / "a.h5";
    settings_.release = false;
    ASSERT_EQ(spool_.open(settings_.spool), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Tensors are one byte; without `before` there is no outputs_before.
  void call(uint64_t invocation, uint32_t attempt, int output, std::optional<int> before = {}) {
    Begin begin;
    begin.invocation = invocation;
    begin.attempt = attempt;
    begin.texts = {{"kernel", "k"}, {"label", std::to_string(invocation)}};
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
    tensor.description = {"x", "uint8", {1}, {}};
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
    std::vector<Read> calls;
    const capture::Reader reader(settings_.output);
    const auto byte = [&](const std::vector<capture::TensorInfo>& tensors) {
      return tensors.empty() ? -1 : std::to_integer<int>(reader.read(tensors.at(0)).bytes()[0]);
    };
    for (const int64_t id : reader.invocation_ids()) {
      const auto invocation = reader.invocation(id);
      calls.push_back({invocation.facts.label, byte(invocation.outputs), byte(invocation.outputs_before)});
    }
    return calls;
  }
  fs::path folder_;
  Builder::Settings settings_;
  Appender spool_;
};

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
