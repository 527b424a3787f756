// Finds out whether a capture is still being written.
#pragma once

#include <string>

namespace msda::capture {

// Returns "is being written by process 4711; ...", or "by another process" if that is not known; empty if nobody writes
// it. A program that writes a capture holds an exclusive flock() on it, as libhdf5 does.
std::string who_writes(const std::string& path);

}  // namespace msda::capture
