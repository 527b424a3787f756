// How much memory there is for what is read, or copied. A header alone, as control_groups.h is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "recorder/machine/control_groups.h"

namespace msda::machine {

namespace detail {

// Returns nothing if the file holds no number, as "max" is none, or one that makes no sense.
inline std::optional<int64_t> number_in(const std::string& file) {
  int64_t number = 0;
  return std::ifstream(file) >> number && number >= 0 ? std::optional(number) : std::nullopt;
}

// Returns the number that a line "name number" of the file has, or 0.
inline int64_t number_of(const std::string& wanted, const std::string& file) {
  std::ifstream lines(file);
  int64_t number = 0;
  for (std::string name; lines >> name >> number;) {
    if (name == wanted) return std::max<int64_t>(number, 0);
  }
  return 0;
}

inline std::optional<int64_t> left_in(const MemoryGroup& group) {
  const bool first = group.is_version_1;
  const auto file = [&group](const char* name) { return group.folder + "/" + name; };
  const auto limit = number_in(file(first ? "memory.limit_in_bytes" : "memory.max"));
  if (!limit) return std::nullopt;
  const int64_t used = number_in(file(first ? "memory.usage_in_bytes" : "memory.current")).value_or(0);
  // The kernel takes files' pages that were not used lately from their cache before a group has too little.
  const int64_t cached = number_of(first ? "total_inactive_file" : "inactive_file", file("memory.stat"));
  return std::max<int64_t>(*limit - std::max<int64_t>(used - cached, 0), 0);
}

inline std::optional<int64_t> left_on_the_machine(const std::string& proc) {
  std::optional<int64_t> free;
  std::ifstream file(proc + "/meminfo");
  for (std::string name, line; file >> name && std::getline(file, line);) {  // "MemAvailable:   123 kB"
    if (name == "MemAvailable:" || name == "SwapFree:") {
      free = free.value_or(0) + 1024 * std::strtoll(line.c_str(), nullptr, 10);
    }
  }
  return free;
}

}  // namespace detail

// Returns bytes that the machine has free or can make so, or that a control group of this process, as a container, has
// left, if that is less; nothing if the system reports neither. `proc` and `mount` are where it reports them: parts of
// these may be missing.
inline std::optional<int64_t> free_memory(const std::string& proc = "/proc",
                                          const std::string& mount = "/sys/fs/cgroup") {
  std::optional<int64_t> free = detail::left_on_the_machine(proc);
  for (const MemoryGroup& group : memory_groups(proc + "/self/cgroup", mount)) {
    if (const auto left = detail::left_in(group)) free = std::min(free.value_or(*left), *left);
  }
  return free;
}

}  // namespace msda::machine
