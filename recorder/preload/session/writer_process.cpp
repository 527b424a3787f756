#include "recorder/preload/session/writer_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

extern char** environ;

namespace msda::record {
namespace {

// fork() without what the host's libraries have hung on it, and without a signal when the child ends. Until exec the
// child may call nothing that takes a lock.
pid_t bare_fork() { return static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr)); }

// The environment without what would make the writer record, or read, what its host does.
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

// Where the writer looks for a descriptor; closed if there is none.
void place(int descriptor, int at) {
  if (descriptor >= 0) {
    dup2(descriptor, at);
  } else {
    close(at);
  }
}

[[noreturn]] void become_writer(const char* program, char* const* arguments, char* const* environment, int doorbell,
                                int session_lock, int shared_memory) {
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  // Standard input becomes the doorbell; nothing else of the host's stays open but where a line can be said.
  dup2(doorbell, STDIN_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  dup2(null, STDOUT_FILENO);
  place(session_lock, 3);
  place(shared_memory, 4);
  if (syscall(SYS_close_range, 5, ~0u, 0) != 0) {  // Linux before 5.9
    for (int descriptor = 5; descriptor < 4096; ++descriptor) close(descriptor);
  }
  execve(program, arguments, environment);
  _exit(127);
}

}  // namespace

int start_writer(const std::string& program, const std::string& spool, const std::string& output, bool force,
                 long keep_last, const std::string& stages, int session_lock, int shared_memory,
                 WriterProcess& writer) noexcept {
  if (program.empty() || access(program.c_str(), X_OK) != 0) return ENOENT;
  int ends[2];
  // A socket, not a pipe: ringing where nobody listens any more must not raise SIGPIPE in the host.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  for (int& end : ends) end = above_standard(end);
  int error = 0;
  try {
    const std::string keep = std::to_string(keep_last);
    std::vector<const char*> arguments{program.c_str(), "--follow",   spool.c_str(), "--output",    output.c_str(),
                                       "--keep-last",   keep.c_str(), "--stages",    stages.c_str()};
    if (force) arguments.push_back("--force");
    arguments.push_back(nullptr);
    const std::vector<char*> environment = writer_environment();
    const pid_t child = bare_fork();
    if (child == 0) {
      const pid_t grandchild = bare_fork();
      if (grandchild == 0) {
        become_writer(program.c_str(), const_cast<char* const*>(arguments.data()), environment.data(), ends[0],
                      session_lock, shared_memory);
      }
      _exit(grandchild < 0 ? 1 : 0);
    }
    int status = 0;
    if (child < 0) {
      error = errno;
    } else {
      while (waitpid(child, &status, __WCLONE) < 0 && errno == EINTR) {
      }
      if (status != 0) error = EAGAIN;
    }
  } catch (...) {
    error = ENOMEM;
  }
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
  } else {
    writer.doorbell = ends[1];
  }
  return error;
}

bool knock(const WriterProcess& writer) noexcept {
  const char news = 0;
  const ssize_t sent = send(writer.doorbell, &news, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == 1 || errno == EAGAIN || errno == EWOULDBLOCK;  // a full buffer is news enough
}

int above_standard(int descriptor) noexcept {
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  if (moved < 0) return descriptor;
  close(descriptor);
  return moved;
}

}  // namespace msda::record
