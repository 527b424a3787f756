#include "recorder/capture/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "recorder/capture/reader.h"

namespace msda::capture {
namespace {

void read_everything(const std::string& path) {
  // What commands read first comes first here too, while the heap is as small as theirs: a read beyond a buffer's end,
  // by far the most frequent crash, then hits the end of the heap in both or in neither.
  const auto survive = [](auto&& read) {
    try {
      read();
    } catch (const Error&) {  // reported again, and better, to whoever needs this part of the file
    }
  };
  const Reader reader(path);
  for (const int64_t id : reader.invocation_ids()) survive([&] { reader.invocation(id); });
  survive([&] { reader.run(); });
  survive([&] { reader.seeds(); });
  survive([&] { reader.kernels(); });
  for (const TensorInfo& dataset : reader.datasets()) survive([&] { reader.digest_of(dataset); });
}

[[noreturn]] void run_child(const std::string& path) {
  // Many times what reading takes; a loop in libhdf5 ends there.
  struct stat file {};
  stat(path.c_str(), &file);
  const rlim_t seconds = 2 + static_cast<rlim_t>(file.st_size) / 20'000'000;
  const rlimit time{seconds, seconds + 2}, no_core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_CORE, &no_core);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDERR_FILENO);  // a sanitizer's or libc's last words
  try {
    read_everything(path);
  } catch (...) {  // an error that the reader reports in words, to whoever opens the file after this
  }
  _exit(0);
}

}  // namespace

void probe(const std::string& path) {
  const pid_t child = fork();
  if (child < 0) return;  // no process to be had: the reading itself must do
  if (child == 0) run_child(path);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  // A sanitizer ends the process with a status of its own instead of the signal.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : SIGABRT;
  const bool looped = signal == SIGXCPU || signal == SIGKILL;
  throw Error(fmt::format("{}: is damaged so that the HDF5 library {} on it{}; recover a copy, or record again", path,
                          looped ? "does not come to an end" : "crashes",
                          looped ? "" : fmt::format(" ({})", strsignal(signal))));
}

}  // namespace msda::capture

#if defined(__SANITIZE_ADDRESS__)
// libhdf5 forgets some of its own memory where a damaged file makes it give up; our leaks are still told.
extern "C" __attribute__((weak, visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libhdf5\n";
}
#endif
