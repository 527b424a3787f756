// What the reproducers are made of.
#pragma once

#include <string>
#include <string_view>

namespace msda::replay {

// Returns the text of a file of this folder, "python/check.py"; empty if there is none.
std::string part(std::string_view path);

}  // namespace msda::replay
