// What the recorder sets in the environment of its program is no part of what a capture says of that environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msda::text {

// The variable's value as the program was started with; nothing for a variable that the recorder alone has set.
std::optional<std::string> without_recorder(std::string_view name, std::string_view value);

}  // namespace msda::text
