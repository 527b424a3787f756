// A kernel's name in a line of text.
#pragma once

#include <cstddef>
#include <string>

namespace msda::replay {

// Returns a demangled name without its result and parameters, in so many columns: "at::native::copy<float>". Of a name
// that is too long the middle is cut out.
std::string short_name(const std::string& full, size_t columns);

}  // namespace msda::replay
