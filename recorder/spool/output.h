// Where a recording goes and how much it may take, for the recorder, which decides, and msda-record, which says so
// before the program runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace msda::spool {

// The name that a process tries for its output: the wanted one at first, then others, because those before are taken.
std::string output_name(const std::string& wanted, pid_t process, int attempt);

// Bytes that this user may still write to the disk of a folder; nothing if the disk does not tell.
std::optional<uint64_t> free_bytes(const std::string& folder);

// Bytes that a recording takes there at most if nobody sets a limit, and as many stay free: no default fills a disk.
std::optional<uint64_t> default_limit(const std::string& folder);

}  // namespace msda::spool
