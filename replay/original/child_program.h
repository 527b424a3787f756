// Starts a program that inherits nothing of this process but what it is given.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace msda::replay {

struct ChildProgram {
  std::string path;
  std::vector<std::string> arguments;            // the first is its name
  std::vector<std::pair<int, int>> descriptors;  // this process' number, and the child's
  bool own_group = false;                        // a process group, which can be killed as a whole
};

// Starts it with descriptors 0 to 2 as given, else /dev/null. Returns an errno, or 0 and the child's number.
int start(const ChildProgram& program, pid_t& child);

}  // namespace msda::replay
