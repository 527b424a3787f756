// A kernel's name in a line of text.
#pragma once

#include <cstddef>
#include <string>

namespace msda::replay {

// Returns a demangled name without its result and parameters, in so many columns: "at::native::copy<float>". The middle
// of a name that is too long is cut out.
std::string short_name(const std::string& full, size_t columns);

}  // namespace msda::replay
