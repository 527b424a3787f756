// How much memory this process may use: what the machine has, or what a control group, as in a container, or ulimit -v
// allows.
#pragma once

#include <cstdint>
#include <string>

namespace msda::record {

// Returns bytes; 0 if the system does not report them. `groups` is /proc/self/cgroup, `mount` where control groups are
// mounted.
uint64_t memory_limit(const std::string& groups = "/proc/self/cgroup", const std::string& mount = "/sys/fs/cgroup");

}  // namespace msda::record
