// Makes text from a file or a program safe to print.
#pragma once

#include <string>
#include <string_view>

namespace msda::text {

// Returns the text with every character that a terminal interprets shown as an escape, line ends and tabs included: \n,
// \x1b for other control characters and for bytes that are not UTF-8, \u202e for control characters of Unicode (C1,
// line separators, changes of the writing direction). All other UTF-8 stays as it is.
std::string escaped(std::string_view text);

}  // namespace msda::text
