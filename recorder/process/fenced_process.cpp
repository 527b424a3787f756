#include "recorder/process/fenced_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>

namespace msda::process {
namespace {

[[noreturn]] void run(int socket, pid_t parent, FencedProcess::Errors errors,
                      const std::function<void(Channel&)>& serve) {
  setpgid(0, 0);
  std::signal(SIGTERM, end_process);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) end_process();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // A file that both held open would outlive the parent's use of it, and what this process prints would stand between
  // the parent's lines.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_shown = fd == STDERR_FILENO && errors == FencedProcess::Errors::kShown;
    if (fd != socket && !is_shown) dup2(null, fd);
  }
  if (socket != FencedProcess::kSocket) dup2(socket, FencedProcess::kSocket);
  fcntl(FencedProcess::kSocket, F_SETFD, FD_CLOEXEC);
  syscall(SYS_close_range, FencedProcess::kSocket + 1, ~0U, 0);  // glibc before 2.34 lacks close_range()
  std::signal(SIGXCPU, SIG_DFL);
  // A sanitizer's log shows whose mistake a crash is: the library's, or ours.
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    if (!kSanitized) std::signal(signal, SIG_DFL);
  }
  try {
    Channel channel(FencedProcess::kSocket);
    serve(channel);
  } catch (...) {  // an invalid request, an exception of the library, or no memory
    _exit(1);
  }
  end_process();
}

}  // namespace

void set_limit(decltype(RLIMIT_AS) resource, rlim_t value) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(value, limit.rlim_max);
  setrlimit(resource, &limit);
}

void limit_computing(int64_t seconds) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  set_limit(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + seconds));
}

int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void end_process(int) {
  kill(getpgrp() == getpid() ? 0 : getpid(), SIGKILL);
  _exit(0);
}

void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  fcntl(FencedProcess::kSocket, F_SETFD, 0);
  execv(arguments[0], arguments.data());
}

FencedProcess::FencedProcess(const std::function<void(Channel&)>& serve, Errors errors) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  channel_.emplace(sockets[0]);
  const Channel theirs(sockets[1]);  // closes it
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ == 0) run(sockets[1], parent, errors, serve);
  if (child_ < 0) throw std::system_error(errno, std::generic_category());
  setpgid(child_, child_);  // as the child does: whoever comes first
}

FencedProcess::~FencedProcess() {
  channel_.reset();  // the child ends with it, unless what runs in it keeps it
  wait(false);
}

// Ends the processes that the child has started, too, and returns its status.
int FencedProcess::wait(bool may_run_on) {
  constexpr int kTries = 1000, kMicrosecondsBetween = 2000;
  if (child_ <= 0) return status_;
  siginfo_t ended{};
  const auto has_ended = [&] {
    return waitid(P_PID, child_, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0;
  };
  for (int tries = 0; may_run_on && tries < kTries && !has_ended(); ++tries) usleep(kMicrosecondsBetween);
  kill(-child_, SIGKILL);  // before its number may be another's
  while (waitpid(child_, &status_, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return status_;
}

Failure FencedProcess::end() {
  using How = Failure::How;
  const How how = errno == EAGAIN || errno == EWOULDBLOCK ? How::kLate : errno == EBADMSG ? How::kInvalid : How::kExit;
  const int status = wait(how == How::kExit);  // it may have closed the socket and run on
  if (how != How::kExit) return {how};
  if (WIFSIGNALED(status)) return {How::kSignal, strsignal(WTERMSIG(status)), WTERMSIG(status)};
  return {how, {}, WEXITSTATUS(status)};
}

}  // namespace msda::process
