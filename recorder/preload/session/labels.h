// The program's labels for its calls.
#pragma once

#include <string>

namespace msda::record {

// Labels the calls that the calling thread makes from now on; null removes the label.
void set_label(const char* label) noexcept;

// Returns the thread's label; or else the last that any thread was given, because a framework runs a backward pass on a
// thread of its own; or else the test that pytest is running.
std::string current_label();

}  // namespace msda::record
