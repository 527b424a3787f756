// The process of a library: its time limits, and what becomes of its answers. What libraries compute, and what is
// refused of them, tests/python/operators/test_own_libraries.py tests from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "replay/base/errors.h"
#include "replay/own/library_process.h"

namespace msda::replay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// The library of tests/own/segment_sum.c, in which MSDA_TEST_FAULT names a fault.
std::string library() { return MSDA_TEST_LIBRARY; }

class Faulty {
 public:
  explicit Faulty(const char* fault) { setenv("MSDA_TEST_FAULT", fault, 1); }
  ~Faulty() { unsetenv("MSDA_TEST_FAULT"); }
};

LibraryProcess::NewCall two_segments() {
  return {{2, 3, 4}, {{4, 3}, {4}, {2, 3}}, {{}, {1, 0, 1, 7}, {}}, {{"rows", 4, 4.0}}};
}

TEST(LibraryProcess, Answers) {
  LibraryProcess process(library());
  EXPECT_EQ(process.schema().name, "segment_sum");
  ASSERT_EQ(process.schema().dimensions.size(), 3u);
  EXPECT_TRUE(process.schema().dimensions[2].may_be_left_out);
  const int64_t first = std::get<int64_t>(process.open(two_segments()));
  LibraryProcess::NewCall new_call = two_segments();
  new_call.numbers[1] = {0, 0, 0, 0};
  const int64_t second = std::get<int64_t>(process.open(new_call));  // both are open
  const auto numbers = [&](int64_t call, int64_t element) {
    const auto answer = process.addends(call, 0, element, 1, {});
    EXPECT_EQ(answer.fault, "");
    std::vector<int64_t> found;
    for (size_t i = 0; answer.words.at(i) != words::kEndOfElement; i += words::kBeforeInputs + 1) {
      EXPECT_EQ(words::form_of(answer.words.at(i)).inputs, 1);
      EXPECT_EQ(std::bit_cast<double>(answer.words.at(i + 1)), 1);
      const auto number = static_cast<int64_t>(answer.words.at(i + 2));
      EXPECT_EQ(answer.words.at(i + 3), static_cast<uint64_t>(number * 3 + element % 3));
      found.push_back(number);
    }
    return found;
  };
  EXPECT_EQ(numbers(first, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(numbers(first, 5), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(numbers(second, 1), (std::vector<int64_t>{0, 1, 2, 3}));
  process.close(first);
  EXPECT_EQ(numbers(second, 5), (std::vector<int64_t>{}));
}

TEST(LibraryProcess, EndsOneThatSleeps) {
  const Faulty fault("open sleeps");
  LibraryProcess process(library(), {.cpu_seconds = 10, .wall_seconds = 1});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT([&] { process.open(two_segments()); },
              ThrowsMessage<BadInput>(HasSubstr("does not answer within 1 s in open()")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  // Whoever asks again gets the same answer, at once.
  EXPECT_THAT([&] { process.open(two_segments()); }, ThrowsMessage<BadInput>(HasSubstr("does not answer within 1 s")));
}

TEST(LibraryProcess, EndsOneThatComputesWithoutEnd) {
  const Faulty fault("describing loops");
  EXPECT_THAT(
      [] { LibraryProcess process(library(), {.cpu_seconds = 1, .wall_seconds = 100}); },
      ThrowsMessage<BadInput>(HasSubstr("does not come to an end within 1 s of computing time as it is loaded")));
}

TEST(LibraryProcess, EndsOneThatRunsOnWithoutASocket) {
  const Faulty fault("open closes files");
  LibraryProcess process(library());
  EXPECT_THAT([&] { process.open(two_segments()); }, ThrowsMessage<BadInput>(HasSubstr("in open()")));
}

// An answer that comes byte by byte is none, either.
TEST(LibraryProcess, EndsOneThatAnswersWithoutEnd) {
  const Faulty fault("open answers without end");
  LibraryProcess process(library(), {.cpu_seconds = 10, .wall_seconds = 1});
  EXPECT_THAT([&] { process.open(two_segments()); },
              ThrowsMessage<BadInput>(HasSubstr("does not answer within 1 s in open()")));
}

TEST(LibraryProcess, RefusesWhatIsWrittenToItsSocket) {
  const Faulty fault("open writes to the socket");
  LibraryProcess process(library());
  EXPECT_THAT([&] { process.open(two_segments()); }, ThrowsMessage<BadInput>(HasSubstr("answers what is no answer")));
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// No process that has not ended, or waits for a parent to ask how.
bool runs(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return status >> number >> name >> state && state != "Z" && state != "X";
}

// Not those either that leave its process group, or that a shell has started.
TEST(LibraryProcess, LeavesNoProcesses) {
  const std::string list = testing::TempDir() + "/msda_library_processes";
  std::filesystem::remove(list);
  setenv("MSDA_TEST_LIST", list.c_str(), 1);
  const Faulty fault("open starts processes");
  {
    LibraryProcess process(library());
    process.open(two_segments());
    std::ifstream children("/proc/thread-self/children");
    pid_t child = 0;
    rlimit limit{};
    ASSERT_TRUE(children >> child && prlimit(child, RLIMIT_NPROC, nullptr, &limit) == 0);
    EXPECT_LT(limit.rlim_cur, 100'000u);
    for (int i = 0; i < 500 && std::ranges::count(text_of(list), '\n') < 5; ++i) usleep(10'000);
  }
  std::istringstream started(text_of(list));
  int count = 0;
  for (pid_t process = 0; started >> process; ++count) {
    for (int i = 0; i < 500 && runs(process); ++i) usleep(10'000);
    EXPECT_FALSE(runs(process)) << process;
  }
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace msda::replay
