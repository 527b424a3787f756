// What the program calls its calls.
#pragma once

#include <string>

namespace msda::record {

// Names the calls that the calling thread makes from now on; null ends it.
void set_label(const char* label) noexcept;

// The thread's label; or the last that any thread was given, as a backward pass runs on a thread of its framework's; or
// the test that pytest is running.
std::string current_label();

}  // namespace msda::record
