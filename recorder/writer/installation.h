// Finds the parts of an installation, relative to the running program.
#pragma once

#include <filesystem>
#include <string>

namespace msda::record {

// Returns the running program's own file. Throws std::runtime_error if it cannot be found.
std::filesystem::path this_program();

// Returns a library beside the program: in ../lib, in the library folder of an installation, or in the program's own
// folder. Empty if it is in none.
std::filesystem::path installed_library(const std::string& name);

}  // namespace msda::record
