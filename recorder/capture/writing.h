// Whether a capture is still being written.
#pragma once

#include <string>

namespace msda::capture {

// "is being written by process 4711; ...", or "by another process" where that is not known; empty if nobody writes it:
// whoever writes a capture holds an exclusive flock() on it, as libhdf5 does.
std::string who_writes(const std::string& path);

}  // namespace msda::capture
