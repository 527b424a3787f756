// Removes what the recorder sets in the program's environment from what a capture records of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msda::text {

// Returns the variable's value without the recorder's part; nothing for a variable that only the recorder has set.
std::optional<std::string> without_recorder(std::string_view name, std::string_view value);

}  // namespace msda::text
