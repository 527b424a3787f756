// Warnings of the recorder, one line each, on the program's standard error.
#pragma once

#include <string>

namespace msda::record {

// Notes which file standard error is. Called when the library is loaded.
void note_standard_error() noexcept;

// Uses one write(), so that lines of several threads do not mix; shows control characters as escapes. Prints nothing if
// descriptor 2 means another file by now, which is the program's. Keeps errno.
void warn(const std::string& message) noexcept;

}  // namespace msda::record
