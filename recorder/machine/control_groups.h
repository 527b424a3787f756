// The control groups of memory that this process is in: they limit it, as in a container. A header alone, so that what
// is loaded into recorded programs and what is installed link nothing more for it.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace msda::machine {

struct MemoryGroup {
  std::string folder;
  bool is_version_1 = false;
};

inline bool names_memory(std::string_view controllers) {
  while (true) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") return true;
    if (comma == controllers.npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

// Returns each group with those around it, whose limits count as well. `groups` is /proc/self/cgroup, `mount` where
// control groups are mounted. Their folders need not exist: in a container the path may be that outside of it, and the
// mount begins at its own group; then only the group at the mount is found.
inline std::vector<MemoryGroup> memory_groups(const std::string& groups, const std::string& mount) {
  std::vector<MemoryGroup> found;
  std::ifstream file(groups);
  // "0::/system.slice/x" of version 2, "4:cpu,memory:/docker/x" of version 1.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_1 = names_memory(controllers);
    if (!is_version_1 && !controllers.empty()) continue;
    std::string group = line.substr(second + 1);
    for (size_t end = group.size(); end != group.npos; end = group.rfind('/')) {
      group.resize(end);
      found.push_back({mount + (is_version_1 ? "/memory" : "") + group, is_version_1});
    }
  }
  return found;
}

}  // namespace msda::machine
