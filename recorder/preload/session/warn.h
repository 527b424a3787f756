// The recorder's one line to the user, on the standard error of its host.
#pragma once

#include <string>

namespace msda::record {

// Notes what standard error is. Called when the library is loaded.
void note_standard_error() noexcept;

// One write, so that lines of several threads stay whole; control characters are shown as escapes. Nothing is said
// where the number of standard error means another file by now: that is the program's own. errno stays as it is.
void warn(const std::string& message) noexcept;

}  // namespace msda::record
