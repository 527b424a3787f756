// Runs commands of msda-replay, each in a process of its own that is forked, not started: under a sanitizer, starting
// takes several times what most commands do. Protocol, of tests/damaged/runner.py: on standard input, for each
// command, a line of the number of the arguments and then, each ended by a zero byte, folder, files for standard output
// and error, and the arguments; on standard output a line with the process' number, and one with its status as of
// waitpid(), the most memory that it had, in KiB, and the milliseconds of processors that it took.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "replay/commands/program.h"

namespace {

bool read_text(std::string& text) {
  text.clear();
  for (int byte = 0; (byte = std::getchar()) != 0;) {
    if (byte == EOF) return false;
    text.push_back(static_cast<char>(byte));
  }
  return true;
}

void put_at(const char* path, int flags, int descriptor) {
  const int opened = open(path, flags, 0600);
  if (opened < 0) _exit(127);
  dup2(opened, descriptor);
  close(opened);
}

[[noreturn]] void run(std::vector<std::string>& texts) {
  setsid();
  if (chdir(texts[0].c_str()) != 0) _exit(127);
  put_at("/dev/null", O_RDONLY, STDIN_FILENO);
  put_at(texts[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  put_at(texts[2].c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  std::vector<char*> arguments;
  for (size_t i = 3; i < texts.size(); ++i) arguments.push_back(texts[i].data());
  arguments.push_back(nullptr);
  // Skips the destruction of globals, which takes a sanitizer long.
  std::_Exit(msda::replay::run_program(static_cast<int>(arguments.size()) - 1, arguments.data()));
}

}  // namespace

int main() {
  for (int count = 0; std::scanf("%d", &count) == 1 && std::getchar() == '\n';) {
    std::vector<std::string> texts(static_cast<size_t>(count) + 3);
    for (std::string& text : texts) {
      if (!read_text(text)) return 1;
    }
    const pid_t child = fork();
    if (child == 0) run(texts);
    std::printf("%d\n", child);
    std::fflush(stdout);
    int status = 0;
    rusage used{};
    if (wait4(child, &status, 0, &used) != child) return 1;
    const auto milliseconds = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
    std::printf("%d %ld %ld\n", status, used.ru_maxrss, milliseconds(used.ru_utime) + milliseconds(used.ru_stime));
    std::fflush(stdout);
  }
  return 0;
}
