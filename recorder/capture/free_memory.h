// How much memory there is for what is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace msda::capture {

// Bytes that the machine has free or can make so, or that a control group of this process, as a container, has left, if
// that is less; nothing if the system tells neither. `proc` and `mount` are where it tells: parts of it may be missing.
std::optional<int64_t> free_memory(const std::string& proc = "/proc", const std::string& mount = "/sys/fs/cgroup");

}  // namespace msda::capture
