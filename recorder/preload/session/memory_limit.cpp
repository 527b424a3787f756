#include "recorder/preload/session/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "recorder/machine/control_groups.h"

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

// "max" is not a number: no limit.
uint64_t limit_in(const std::string& file) {
  uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : kNone;
}

}  // namespace

uint64_t memory_limit(const std::string& groups, const std::string& mount) {
  uint64_t limit = limit_of_the_process();
  for (const machine::MemoryGroup& group : machine::memory_groups(groups, mount)) {
    const char* file = group.is_version_1 ? "/memory.limit_in_bytes" : "/memory.max";
    limit = std::min(limit, limit_in(group.folder + file));
  }
  const uint64_t machine = memory_of_the_machine();
  return machine == 0 && limit == kNone ? 0 : std::min(limit, machine == 0 ? kNone : machine);
}

}  // namespace msda::record
