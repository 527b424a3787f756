// Names of functions as they stand in their source.
#pragma once

#include <string>

namespace msda::text {

// Returns the same name if it is not mangled, or longer than those that compilers make.
std::string demangled(const std::string& name);

}  // namespace msda::text
