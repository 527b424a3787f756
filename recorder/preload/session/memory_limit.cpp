#include "recorder/preload/session/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace msda::record {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

uint64_t memory_of_the_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

uint64_t limit_of_the_process() {
  rlimit space{};
  return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY ? space.rlim_cur : kNone;
}

// "max" is no number.
uint64_t limit_in(const std::string& file) {
  uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : kNone;
}

// A group may not use more than the groups that it is in.
uint64_t limit_of(std::string group, const std::string& mount, const char* file) {
  uint64_t least = kNone;
  for (;;) {
    least = std::min(least, limit_in(mount + group + "/" + file));
    const size_t last = group.rfind('/');
    if (group.empty() || last == group.npos) return least;
    group.resize(last);
  }
}

bool has_memory(std::string_view controllers) {
  constexpr std::string_view kMemory = "memory";
  while (true) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == kMemory) return true;
    if (comma == controllers.npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

}  // namespace

uint64_t memory_limit(const std::string& groups, const std::string& mount) {
  uint64_t limit = limit_of_the_process();
  std::ifstream file(groups);
  // "0::/system.slice/x" of version 2, "4:cpu,memory:/docker/x" of version 1. In a container the path may be that
  // outside of it, and the mount begins at its own group: then only the group at the mount is found.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) limit = std::min(limit, limit_of(group, mount, "memory.max"));
    if (has_memory(controllers)) limit = std::min(limit, limit_of(group, mount + "/memory", "memory.limit_in_bytes"));
  }
  const uint64_t machine = memory_of_the_machine();
  return machine == 0 && limit == kNone ? 0 : std::min(limit, machine == 0 ? kNone : machine);
}

}  // namespace msda::record
