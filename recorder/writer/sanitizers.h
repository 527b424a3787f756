// What msda-record does for programs that are built with a sanitizer.
#pragma once

#include <string>

namespace msda::record {

// Why the program, named as for execvp, cannot be recorded, or nothing.
std::string why_not_recordable(const std::string& program);

// The environment in which the others are recorded: without these options a program would end at once, since the
// recorder's library comes before the sanitizer's runtime, or be told of races in the recorder, whose synchronization
// the runtime does not see. What the user sets comes behind them, and so counts.
void set_sanitizer_options();

}  // namespace msda::record
