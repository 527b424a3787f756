// Commands that a person copies.
#pragma once

#include <string>
#include <string_view>

namespace msda::text {

// Returns the text as one word of a POSIX shell's command line, quoted where it must be.
std::string shell_word(std::string_view text);

}  // namespace msda::text
