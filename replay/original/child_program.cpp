#include "replay/original/child_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace msda::replay {
namespace {

// posix_spawn_file_actions_addclosefrom_np would do with them what is to be done, but glibc before 2.34 lacks it.
std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    numbers.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return numbers;
}

void place_descriptors(const ChildProgram& program, posix_spawn_file_actions_t& actions) {
  const auto is_given = [&](int number) {
    return std::ranges::find(program.descriptors, number, &std::pair<int, int>::second) != program.descriptors.end();
  };
  for (const auto& [ours, theirs] : program.descriptors) posix_spawn_file_actions_adddup2(&actions, ours, theirs);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_given(standard)) {
      posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", standard == STDIN_FILENO ? O_RDONLY : O_WRONLY,
                                       0);
    }
  }
  for (const int number : open_descriptors()) {
    if (number > STDERR_FILENO && !is_given(number)) posix_spawn_file_actions_addclose(&actions, number);
  }
}

}  // namespace

int start(const ChildProgram& program, pid_t& child) {
  std::vector<std::string> texts = program.arguments;
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  place_descriptors(program, actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (program.own_group) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(&child, program.path.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace msda::replay
