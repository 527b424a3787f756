// The text that --version of both commands prints.
#pragma once

#include <string>

namespace msda::record {

// Returns "1.2.3": the project's version, from tools/python/msda_replay/__init__.py.
std::string version();

// Returns "1.10.8", the version of the loaded library.
std::string hdf5_version();

// Returns the version and the build: compiler, CUDA, HDF5, the recorder's hooks; a line each.
std::string describe_build(const std::string& program);

}  // namespace msda::record
