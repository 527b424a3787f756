// The process that a library runs in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace msda::replay {

// open() may take a second more of computing time for so many integers.
inline constexpr int64_t kIntegersOfASecond = 1'000'000;

// Loads the library, describes it, and answers what LibraryProcess asks until the other end of the socket is closed.
// The process keeps nothing else that the parent has open. `cpu_seconds`: for each request.
[[noreturn]] void serve_library(int socket, pid_t parent, const std::string& path, int cpu_seconds);

}  // namespace msda::replay
