#include "replay/doctor/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "replay/base/errors.h"

namespace msda::replay {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const Spawn& spawn) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const bool left_out = !spawn.without.empty() && text.starts_with(spawn.without);
    if (!left_out && !spawn.variables.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : spawn.variables) all.push_back(name + "=" + value);
  return all;
}

// While it lives, Ctrl-C does not end this process.
class InterruptsIgnored {
 public:
  InterruptsIgnored() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before_);
  }
  ~InterruptsIgnored() { sigaction(SIGINT, &before_, nullptr); }
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;
  bool were_ignored() const { return before_.sa_handler == SIG_IGN; }

 private:
  struct sigaction before_ {};
};

int wait_for(pid_t child, const std::optional<std::chrono::milliseconds>& limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit.value_or(std::chrono::milliseconds(0));
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, limit ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return 0;
    if (limit && Clock::now() > end) kill(child, SIGKILL);
    if (limit) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int spawn_and_wait(const Spawn& spawn) {
  std::vector<std::string> command = spawn.command, variables = environment_of(spawn);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!spawn.output.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, spawn.output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
  }
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const InterruptsIgnored ignored;
  sigset_t interrupt;
  sigemptyset(&interrupt);
  if (!ignored.were_ignored()) sigaddset(&interrupt, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command[0].c_str(), &actions, &attributes, pointers_to(command).data(),
                                 pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw BadInput(fmt::format("{}: cannot start it: {}", command[0], std::strerror(error)));
  return wait_for(child, spawn.limit);
}

}  // namespace msda::replay
