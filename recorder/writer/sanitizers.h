// Support for programs that are built with a sanitizer.
#pragma once

#include <string>

namespace msda::record {

// Returns why the program, named as for execvp, cannot be recorded, or nothing.
std::string why_not_recordable(const std::string& program);

// Sets options without which a program would end at once, because the recorder's library is loaded before the
// sanitizer's runtime, or would report races in the recorder, whose synchronization the runtime does not see. The
// user's options come after them and take precedence.
void set_sanitizer_options();

}  // namespace msda::record
