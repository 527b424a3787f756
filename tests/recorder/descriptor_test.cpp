// The recorder's descriptors and messages in a program that closes and reuses descriptors and sets limits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "recorder/preload/session/warn.h"
#include "recorder/spool/appender.h"
#include "recorder/spool/check.h"
#include "recorder/spool/follower.h"
#include "recorder/spool/owned_descriptor.h"
#include "recorder/spool/write_signals.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

namespace fs = std::filesystem;
using spool::OwnedDescriptor;

class Descriptors : public InAFolder {
 protected:
  int open_new(const std::string& name) const {
    return open((folder_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(Descriptors, LieAboveWhatProgramsUse) {
  const int lowest = open_new("a");
  const OwnedDescriptor owned(lowest);
  EXPECT_GT(owned.get(), 100);
  EXPECT_EQ(fcntl(owned.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(open_new("b"), lowest);  // the number is the program's again
  close(lowest);
}

TEST_F(Descriptors, AreGivenUpWhenTheNumberIsAnotherFiles) {
  OwnedDescriptor owned(open_new("mine"));
  const int number = owned.get();
  const int theirs = open_new("theirs");
  ASSERT_EQ(dup2(theirs, number), number);
  EXPECT_EQ(owned.get(), -1);
  owned.close();
  EXPECT_EQ(::write(number, "data", 4), 4);  // it is still open
  EXPECT_EQ(content("theirs"), "data");
  close(number);
  close(theirs);
}

// The number that the program closed is the next one that is free.
TEST_F(Descriptors, AreReplacedByOneOfTheSameNumber) {
  OwnedDescriptor owned(open_new("a"));
  const int number = owned.get();
  close(number);
  owned = OwnedDescriptor(open((folder_ / "a").c_str(), O_RDWR));
  EXPECT_EQ(owned.get(), number);
}

TEST_F(Descriptors, ASpoolGoesOnWhenTheProgramClosedIt) {
  const std::string path = folder_ / "a.spool";
  spool::Appender appender;
  ASSERT_EQ(appender.open(path), 0);
  ASSERT_TRUE(appender.append(spool::End{1}));
  closefrom(3);
  const int theirs = open_new("theirs"), end = 1000;  // an ordinary limit is 1,024: some are free
  for (int number = 3; number < end; ++number) {
    if (number != theirs) dup2(theirs, number);
  }
  ASSERT_TRUE(appender.append(spool::End{2}));
  for (int number = 3; number < end; ++number) close(number);
  EXPECT_EQ(content("theirs"), "");
  spool::Follower follower(path);
  EXPECT_EQ(spool::decode<spool::End>(follower.next()->message).invocation, 1u);
  EXPECT_EQ(spool::decode<spool::End>(follower.next()->message).invocation, 2u);
}

TEST_F(Descriptors, ASpoolEndsWhereAnotherFileHasItsName) {
  const std::string path = folder_ / "a.spool";
  spool::Appender appender;
  ASSERT_EQ(appender.open(path), 0);
  closefrom(3);
  fs::rename(path, folder_ / "moved");
  std::ofstream(path) << "mine";
  EXPECT_FALSE(appender.append(spool::End{1}));
  EXPECT_EQ(appender.error(), EBADF);
  EXPECT_EQ(content("a.spool"), "mine");
}

volatile sig_atomic_t signals = 0;

TEST_F(Descriptors, AFailedWriteRaisesNoSignal) {
  signal(SIGPIPE, [](int) { signals = signals + 1; });
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  {
    const spool::WriteSignalsHeld held;
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
  }
  EXPECT_EQ(signals, 0);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);  // the program's own write does
  EXPECT_EQ(signals, 1);
  // One that is pending already is the program's.
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  raise(SIGPIPE);
  { const spool::WriteSignalsHeld held; }
  pthread_sigmask(SIG_UNBLOCK, &pipe_signal, nullptr);
  EXPECT_EQ(signals, 2);
  close(ends[1]);
  signal(SIGPIPE, SIG_DFL);
}

TEST_F(Descriptors, ALimitOnFileSizesIsAnErrorOfTheSpoolAlone) {
  spool::Appender appender;
  ASSERT_EQ(appender.open(folder_ / "a.spool"), 0);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const bool appended = appender.append(spool::End{1}, std::vector<std::byte>(1000));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(appended);
  EXPECT_EQ(appender.error(), EFBIG);
}

TEST_F(Descriptors, LinesGoToStandardErrorOnly) {
  const int before = dup(STDERR_FILENO);
  const int log = open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int data = open_new("data");
  record::note_standard_error();
  dup2(log, STDERR_FILENO);  // a redirection
  record::warn("one\x1b[31m line");
  dup2(data, STDERR_FILENO);  // a file that got the number by chance
  record::warn("another");
  dup2(before, STDERR_FILENO);
  EXPECT_EQ(content("log"), "msda-record: one\\x1b[31m line\n");
  EXPECT_EQ(content("data"), "");
  for (const int number : {before, log, data}) close(number);
  record::note_standard_error();
}

}  // namespace
}  // namespace msda::tests
