// A recording as the hooks use it; the writer's builder turns its spool into a capture.
#include "recorder/preload/session/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "recorder/capture/reader.h"
#include "recorder/preload/session/labels.h"
#include "recorder/writer/builder.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

namespace fs = std::filesystem;
using namespace msda::record;

class RecordingTest : public InAFolder {
 protected:
  void SetUp() override {
    config.output = folder_ / "a.h5";
    config.stages = "none";
    config.ring_bytes = 1 << 20;
    config.writer = "";  // the spool stays
  }
  void TearDown() override { put_away(); }

  // A recording lives as long as its process.
  void put_away() {
    static auto* const kEnded = new std::vector<std::unique_ptr<Recording>>;
    kEnded->push_back(std::move(made));
  }

  Recording& recording() {
    if (!made) made = std::make_unique<Recording>(config);
    return *made;
  }

  // A call whose input and output hold these numbers; `fails`: the real function refuses.
  void call(float input, float output, const std::string& options = "", bool fails = false) {
    const std::vector<float> in(4, input), out(4, output);
    const CallFacts facts{{{{"kernel", "k"}, {"mode", "m"}}, {{"stream", 1}}}, {}, {}};
    auto begun = recording().begin_call(facts, {tensor("value", in)}, options);
    ASSERT_TRUE(begun);
    if (!fails) recording().end_call(*std::move(begun), {tensor("grad_value", out)});
  }

  // A launch on content `key`; its outputs, and what they held before. Its tensors go into the block, if there is one.
  void launch(const std::string& key, float before, float output, bool recorded = true, RingBlock block = {}) {
    auto content = recording().register_content(key, std::to_string(before));
    ASSERT_TRUE(content);
    LaunchRecord record;
    record.content = *std::move(content);
    record.before = std::to_string(before);
    record.facts = {{{{"kernel", "k"}, {"time", ""}, {"label", ""}}}, {}, {}};
    const std::vector<float> in(4, 1), was(4, before), out(4, output);
    if (!record.content.known) record.inputs = {tensor("value", in)};
    if (!record.content.known || !record.content.same_before) record.outputs_before = {tensor("grad_value", was)};
    record.outputs = {tensor("grad_value", out)};
    record.code = "code on " + record.before;
    record.outputs_digest = std::to_string(output);
    if (block) share(record, std::move(block));
    if (recorded) recording().deliver(std::move(record));
    recording().write_held();
  }

  static void share(LaunchRecord& record, RingBlock block) {
    uint64_t used = 0;
    for (auto* tensors : {&record.inputs, &record.outputs_before, &record.outputs}) {
      for (HostTensor& tensor : *tensors) {
        std::ranges::copy(tensor.bytes, block.memory() + used);
        tensor.bytes = {block.memory() + used, tensor.bytes.size()};
        tensor.offset = block.offset() + used;
        used += tensor.bytes.size();
      }
    }
    record.block = std::move(block);
  }

  // A launch of a function that the image defines, as another of the same image may have been launched before.
  void launch_function(const std::string& image, const std::string& function, int64_t registers) {
    const std::vector<float> numbers(4, static_cast<float>(registers));
    if (!recording().has_code(image, function)) {
      recording().deliver_code({image, function, "sm_90", {{"registers", registers}}},
                               std::as_bytes(std::span(kImage)));
    }
    const CallFacts facts{{{{"kernel", function}, {"kernel_digest", image}}, {{"stream", 1}}}, {}, {}};
    auto begun = recording().begin_call(facts, {tensor("value", numbers)}, "");
    ASSERT_TRUE(begun);
    recording().end_call(*std::move(begun), {tensor("grad_value", numbers)});
  }

  static HostTensor tensor(const char* name, const std::vector<float>& numbers) {
    return {{name, MSDA_FLOAT32, {static_cast<int64_t>(numbers.size())}, {}}, std::as_bytes(std::span(numbers))};
  }

  // What a capture of the spool holds: for each invocation the first number of its input and output, and its counts.
  struct Held {
    float input, before, output;
    int64_t duplicates, distinct_outputs;
    bool operator==(const Held&) const = default;
    friend void PrintTo(const Held& held, std::ostream* out) {
      *out << held.input << " " << held.before << " " << held.output << " " << held.duplicates << " "
           << held.distinct_outputs;
    }
  };
  std::vector<Held> capture() {
    const std::string spool = folder_ / "a.h5.spool", output = folder_ / "built.h5";
    Builder builder({spool, output, true, config.keep_last, "test", /*release=*/false});
    builder.finish();
    unfinished = builder.unfinished();
    std::vector<Held> all;
    if (builder.invocations() == 0) return all;
    const capture::Reader reader(output);
    const auto first = [&](const std::vector<capture::TensorInfo>& tensors) {
      float number = -1;
      if (!tensors.empty()) std::memcpy(&number, reader.read(tensors.front()).data.get(), sizeof number);
      return number;
    };
    for (const int64_t id : reader.invocation_ids()) {
      const auto invocation = reader.invocation(id);
      all.push_back({first(invocation.inputs), first(invocation.outputs_before), first(invocation.outputs),
                     invocation.facts.duplicates.value_or(0), invocation.facts.distinct_outputs.value_or(1)});
    }
    return all;
  }

  static constexpr char kImage[] = "machine code of two functions";
  Config config;
  std::unique_ptr<Recording> made;
  int64_t unfinished = 0;
};

using testing::ElementsAre;

// Also not if nobody has asked for its status yet: it has closed all that it had open.
bool is_running(pid_t process) {
  std::string number, name, state;
  std::ifstream(fs::path("/proc") / std::to_string(process) / "stat") >> number >> name >> state;
  return !state.empty() && state != "Z";
}

// Names of templates are long, and threads' stacks may be small. The pattern is made once in a process.
TEST_F(RecordingTest, AsksForKernelsByNameOnASmallStack) {
  config.kernel = "(x+)+grad";
  struct Asked {
    Recording& asked;
    bool wants, another;
  } all{recording(), false, true};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  const auto ask = [](void* argument) -> void* {
    auto& [asked, wants, another] = *static_cast<Asked*>(argument);
    const std::string name(4000, 'x');
    wants = asked.wants((name + "grad_of").c_str());
    another = asked.wants(name.c_str());
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, ask, &all), 0);
  pthread_join(thread, nullptr);
  EXPECT_TRUE(all.wants);
  EXPECT_FALSE(all.another);
}

TEST_F(RecordingTest, KeepsTheLastCallThoughItCameBefore) {
  config.keep_last = 1;
  call(1, 10);
  call(2, 20);
  call(1, 10);
  EXPECT_THAT(capture(), ElementsAre(Held{1, -1, 10, 0, 1}));
}

TEST_F(RecordingTest, KeepsTheLastTwoOfMany) {
  config.keep_last = 2;
  for (const float input : {1.f, 2.f, 3.f, 2.f, 2.f, 4.f}) call(input, 10 * input);
  EXPECT_THAT(capture(), ElementsAre(Held{2, -1, 20, 2, 1}, Held{4, -1, 40, 0, 1}));
}

TEST_F(RecordingTest, CountsEqualCalls) {
  call(1, 10);
  call(1, 10);
  call(1, 11);
  EXPECT_THAT(capture(), ElementsAre(Held{1, -1, 10, 2, 2}));
}

TEST_F(RecordingTest, CallsWithOtherOptionsAreOtherCalls) {
  call(1, 10, "mode a");
  call(1, 11, "mode b");
  EXPECT_THAT(capture(), ElementsAre(Held{1, -1, 10, 0, 1}, Held{1, -1, 11, 0, 1}));
}

TEST_F(RecordingTest, ACallThatFailedIsNotRecordedAndTheNextIs) {
  call(1, 0, "", /*fails=*/true);
  call(1, 10);
  EXPECT_THAT(capture(), ElementsAre(Held{1, -1, 10, 0, 1}));
  EXPECT_EQ(unfinished, 0);  // the failed one's input is gone from the spool
}

TEST_F(RecordingTest, OutputsBeforeAreThoseOfTheRecordedOutputs) {
  launch("a", /*before=*/0, 1);
  launch("a", /*before=*/5, 6);
  launch("a", /*before=*/0, 1);
  EXPECT_THAT(capture(), ElementsAre(Held{1, 0, 1, 2, 1}));
}

TEST_F(RecordingTest, ALaunchThatCouldNotBeCopiedIsNoRepetition) {
  launch("a", 0, 1, /*recorded=*/false);
  launch("a", 0, 1);
  EXPECT_THAT(capture(), ElementsAre(Held{1, 0, 1, 0, 1}));
}

TEST_F(RecordingTest, FunctionsOfOneImageHaveFactsOfTheirOwn) {
  for (const int64_t more : {0, 100}) {  // known functions are not delivered again
    launch_function("xxh3-128:a", "f", 10 + more);
    launch_function("xxh3-128:a", "g", 20 + more);
    launch_function("xxh3-128:b", "f", 30 + more);
  }
  EXPECT_EQ(capture().size(), 6u);
  const capture::Reader reader(folder_ / "built.h5");
  auto kernels = reader.kernels();
  EXPECT_EQ(kernels.size(), 3u);
  capture::share_images(kernels);
  std::vector<int64_t> registers;
  for (const int64_t id : reader.invocation_ids()) {
    const auto code = capture::code_of(reader.invocation(id).facts, kernels);
    ASSERT_TRUE(code);
    registers.push_back(code->facts.at("registers"));
    EXPECT_EQ(code->image.size(), sizeof kImage);
    EXPECT_EQ(code->architecture, "sm_90");
  }
  EXPECT_THAT(registers, ElementsAre(10, 20, 30, 10, 20, 30));
}

// As before functions had facts of their own in captures.
TEST_F(RecordingTest, AFunctionDoesNotGetTheFactsOfAnother) {
  const capture::KernelImage f{"xxh3-128:a", "f", "sm_90", {{"registers", 10}}, {{std::byte{1}}}};
  capture::CallFacts facts;
  facts.kernel = "g";
  facts.kernel_digest = "xxh3-128:a";
  const auto code = capture::code_of(facts, {f});
  ASSERT_TRUE(code);
  EXPECT_EQ(code->name, "g");
  EXPECT_EQ(code->image.data(), f.image.data());
  EXPECT_TRUE(code->facts.empty());
  facts.kernel_digest = "xxh3-128:b";
  EXPECT_FALSE(capture::code_of(facts, {f}));
}

TEST_F(RecordingTest, DeliversWhatWasHeldBackAtTheEnd) {
  launch("a", 0, 1);
  std::atomic<bool> ready{false}, delivered{false};
  ASSERT_TRUE(recording().when_ready([&] { return ready.load(); }, [&] { delivered = true; }));
  std::thread device([&] {
    usleep(20000);
    ready = true;
  });
  recording().finish();
  EXPECT_TRUE(delivered);
  device.join();
}

// It was notified of the launch, and killed before it read it: what it shares with the program ends with the program.
TEST_F(RecordingTest, WhatAWriterLeftThatEndedLateIsInTheSpool) {
  const fs::path reported = folder_ / "told";
  config.writer = folder_ / "writer";
  std::ofstream(config.writer) << "#!/bin/sh\nhead -c 1 >/dev/null\necho $$ > " << reported << "\nkill -KILL $$\n";
  fs::permissions(config.writer, fs::perms::owner_all);
  ASSERT_NE(recording().ring(), nullptr);
  std::string why;
  auto block = recording().ring()->reserve(4096, why);
  ASSERT_TRUE(block) << why;
  launch("a", 0, 1, /*recorded=*/true, *std::move(block));
  pid_t writer = 0;
  while (!(std::ifstream(reported) >> writer)) usleep(1000);
  while (is_running(writer)) usleep(1000);
  recording().finish();
  EXPECT_THAT(capture(), ElementsAre(Held{1, 0, 1, 0, 1}));
}

// The recorder waits and writes, where pthread_cancel takes effect, in functions that must not be left so.
TEST_F(RecordingTest, ACancelledThreadEndsAfterTheRecordersWork) {
  ASSERT_TRUE(recording().when_ready([] { return true; }, [] {}));
  std::atomic<bool> done{false}, goes_on{false};
  std::thread cancelled([&] {
    pthread_cancel(pthread_self());
    call(1, 10);
    std::string output;
    recording().complete_capture(output);
    call(1, 10);
    recording().discard_calls();
    recording().finish();
    done = true;
    pthread_testcancel();
    goes_on = true;
  });
  cancelled.join();
  EXPECT_TRUE(done);
  EXPECT_FALSE(goes_on);
}

TEST_F(RecordingTest, TheLimitCountsWhatIsKept) {
  config.keep_last = 1;
  config.max_bytes = 4000;  // a call has some 600
  for (int i = 0; i < 100; ++i) call(static_cast<float>(i), 0);
  EXPECT_FALSE(recording().is_over());
  config.keep_last = 0;
  put_away();
  fs::remove(folder_ / "a.h5.spool");
  for (int i = 0; i < 3; ++i) call(static_cast<float>(i), 0);
  EXPECT_FALSE(recording().is_over());
  recording().begin_call({{{{"kernel", "k"}}}, {}, {}}, {tensor("value", std::vector<float>(1000))}, "");
  recording().write_held();  // says what happened
  EXPECT_TRUE(recording().is_over());
}

TEST_F(RecordingTest, ADiscardGivesBackWhatTheForgottenCallsCounted) {
  config.max_bytes = 3'000'000;  // more than 4096 calls, after which the recording no longer knows the first
  float next = 0;
  for (int capture = 0; capture < 3; ++capture) {
    for (int i = 0; i < 4400; ++i) call(next++, 0);
    ASSERT_FALSE(recording().is_over());
    recording().discard_calls();
  }
}

TEST_F(RecordingTest, ACallUnderWayCountsBeyondADiscard) {
  config.keep_last = 1;
  config.max_bytes = 1'000'000;
  const std::vector<float> large(10000);
  auto under_way = recording().begin_call({{{{"kernel", "k"}}}, {}, {}}, {tensor("value", large)}, "");
  ASSERT_TRUE(under_way);
  call(1, 0);
  recording().discard_calls();
  recording().end_call(*std::move(under_way), {tensor("grad_value", std::vector<float>(4))});
  call(2, 0);  // the large one is dropped
  call(3, 0);
  EXPECT_FALSE(recording().is_over());
  EXPECT_THAT(capture(), ElementsAre(Held{3, -1, 0, 0, 1}));
}

TEST_F(RecordingTest, ThreadsRecordAtOnce) {
  std::vector<std::thread> threads;
  recording();
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      set_label(("thread " + std::to_string(t)).c_str());
      for (int i = 0; i < 20; ++i) call(static_cast<float>(t * 100 + i), 1);
      for (int i = 0; i < 20; ++i) launch("launch " + std::to_string(t * 100 + i), 0, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(capture().size(), 320u);
  EXPECT_EQ(unfinished, 0);
}

TEST_F(RecordingTest, AForkedChildLeavesTheParentsRecordingAlone) {
  call(1, 10);
  const pid_t child = fork();
  if (child == 0) {
    recording().forget_in_child();
    _exit(fs::exists(folder_ / "a.h5.spool") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  call(2, 20);
  EXPECT_THAT(capture(), ElementsAre(Held{1, -1, 10, 0, 1}, Held{2, -1, 20, 0, 1}));
}

TEST(RecordingOfThisProcess, IsOverInACopyThatNoForkMade) {
  EXPECT_FALSE(recording().is_over());
  // Like a vfork child: a process that no fork handler has seen.
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) syscall(SYS_exit_group, recording().is_over() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace msda::tests
