// Whether the HDF5 library survives a file.
#pragma once

#include <string>

namespace msda::capture {

// Reads the whole capture in a process of its own. libhdf5 itself crashes, or never returns, on some damaged files;
// then this throws an Error that says so, where Reader would take the caller down with it. Errors that libhdf5 reports
// are left for Reader, whose messages are better. Call it before the process has threads.
void probe(const std::string& path);

}  // namespace msda::capture
