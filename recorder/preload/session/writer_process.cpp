#include "recorder/preload/session/writer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace msda::record {
namespace {

// Forks without the fork handlers of the program's libraries, without a signal when the child ends, and without
// notifying a debugger of the program, which would take the child for a thread, or follow it in place of the program.
// Until exec the child may call nothing that takes a lock.
pid_t bare_fork() { return static_cast<pid_t>(syscall(SYS_clone, CLONE_UNTRACED, nullptr, nullptr, nullptr, nullptr)); }

// Returns the environment without the variables that would make the writer record, or load what the program preloads.
std::vector<char*> writer_environment() {
  std::vector<char*> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    bool leave_out = false;
    for (const char* name : {"LD_PRELOAD=", "LD_AUDIT=", "CUDA_INJECTION64_PATH=", "MSDA_RECORD_"}) {
      leave_out = leave_out || std::strncmp(*variable, name, std::strlen(name)) == 0;
    }
    if (!leave_out) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

// Puts a descriptor where the writer expects it; closes that number if there is none.
void place(int descriptor, int at) {
  if (descriptor >= 0) {
    dup2(descriptor, at);
  } else {
    close(at);
  }
}

// Uses the system call: _exit is the recorder's own function, which must not run in a copy of the program.
[[noreturn]] void leave_process(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

[[noreturn]] void become_writer(const WriterSettings& settings, const char* const* arguments, char* const* environment,
                                int socket) {
  setsid();
  // Resets the program's signal dispositions.
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Standard input becomes the socket; of the program's descriptors only standard error stays open.
  dup2(socket, STDIN_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  dup2(null, STDOUT_FILENO);
  place(settings.session_lock, 3);
  place(settings.shared_memory, 4);
  if (syscall(SYS_close_range, 5, ~0u, 0) != 0) {  // Linux before 5.9
    for (int descriptor = 5; descriptor < 4096; ++descriptor) close(descriptor);
  }
  execve(settings.program.c_str(), const_cast<char* const*>(arguments), environment);
  leave_process(127);
}

// Returns 0, or an errno if the child failed.
int wait_for_child(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, __WCLONE) < 0) {
    if (errno != EINTR) return 0;  // the program has waited for it
  }
  return status == 0 ? 0 : EAGAIN;
}

}  // namespace

int WriterProcess::start(const WriterSettings& settings) noexcept {
  if (settings.program.empty() || access(settings.program.c_str(), X_OK) != 0) return ENOENT;
  int ends[2];
  // A socket, not a pipe: a message after the writer's end must not raise SIGPIPE in the program.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  socket_ = spool::OwnedDescriptor(ends[1]);
  const spool::OwnedDescriptor theirs(ends[0]);
  int error = 0;
  try {
    const std::string keep = std::to_string(settings.keep_last);
    std::vector<const char*> arguments{settings.program.c_str(), "--follow",    settings.spool.c_str(), "--output",
                                       settings.output.c_str(),  "--keep-last", keep.c_str(),           "--stages",
                                       settings.stages.c_str()};
    if (settings.force) arguments.push_back("--force");
    arguments.push_back(nullptr);
    const std::vector<char*> environment = writer_environment();
    // No signal handler of the program may run in a copy of it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = bare_fork();
    if (child == 0) {
      const pid_t grandchild = bare_fork();
      if (grandchild == 0) become_writer(settings, arguments.data(), environment.data(), theirs.get());
      leave_process(grandchild < 0 ? 1 : 0);
    }
    error = child < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (child > 0) error = wait_for_child(child);
  } catch (...) {
    error = ENOMEM;
  }
  if (error != 0) socket_.close();
  return error;
}

WriterProcess::Answer WriterProcess::notify() noexcept {
  if (!socket_.was_opened()) return Answer::kThere;  // no writer was started
  const int socket = socket_.get();
  if (socket < 0) return Answer::kUnreachable;
  constexpr char kNewFrames = 0;
  const ssize_t sent = send(socket, &kNewFrames, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  const bool heard = sent == 1 || errno == EAGAIN || errno == EWOULDBLOCK;  // a full buffer notifies it as well
  return heard ? Answer::kThere : Answer::kGone;
}

std::optional<spool::CutDone> WriterProcess::wait_for_cut(uint64_t number) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::minutes(1);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd writer{socket_.get(), POLLIN, 0};
    if (left <= 0 || writer.fd < 0) return std::nullopt;
    const int ready = poll(&writer, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    spool::CutDone done;
    // The writer sends each answer in one piece.
    const ssize_t got = recv(writer.fd, &done, sizeof done, MSG_WAITALL | MSG_DONTWAIT);
    if (got == sizeof done && done.number == number) return done;
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return std::nullopt;
  }
}

}  // namespace msda::record
