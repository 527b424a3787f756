// Where a recording goes and how much it may take. The recorder decides this, and msda-record announces it before the
// program runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace msda::spool {

// Returns the output name of a process' attempt: first the wanted one, then others, as the previous ones are taken.
std::string output_name(const std::string& wanted, pid_t process, int attempt);

// Returns the name of a capture that is begun while the program has not moved the one before: "a.3.h5" for 3.
std::string next_name(const std::string& output, uint64_t number);

// Returns a pattern of output names (%p, %r, %%) from the working folder on, in which nothing is replaced; one that is
// absolute as it is.
std::string absolute_pattern(const std::string& pattern);

// Returns bytes that this user may still write to the disk of a folder; nothing if the disk does not report them.
std::optional<uint64_t> free_bytes(const std::string& folder);

// Returns the most bytes that a recording takes there by default, half of what is free, so that no default fills a
// disk.
std::optional<uint64_t> default_limit(const std::string& folder);

}  // namespace msda::spool
