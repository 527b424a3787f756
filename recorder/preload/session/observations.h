// What the recorder meets in the program, for msda-replay doctor, which says why nothing was recorded.
#pragma once

#include <string_view>

namespace msda::record {

// Appends a line to the file that MSDA_RECORD_OBSERVATIONS names: process, event, text, separated by tabs. Without the
// variable, as it was when the recorder was loaded, it does nothing. Events:
//
//   loaded      the recorder is in this process; the program's path
//   ended       that process ends; one that is killed, or becomes a program without the recorder, does not say so
//   driver      the program found a function of the CUDA driver that the recorder replaces; once a process
//   matched     a kernel that is to be recorded; adapter and name, separated by a tab
//   unmatched   a kernel that no adapter knows
//   excluded    a kernel that an adapter knows, and --kernel leaves out
//   refused     a kernel of which a launch is not recorded; name and reason, separated by a tab
//   output      the capture that this process begins
//   completed   the number of calls in a capture that the program completed
//   discarded   the program discarded its calls; no text
//   cupti       why CUPTI is unavailable; empty if the recorder uses it
//   warning     any line that the recorder prints
void observe(const char* event, std::string_view text) noexcept;

}  // namespace msda::record
