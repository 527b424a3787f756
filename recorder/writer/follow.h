// The writer: turns the spool of a process into a capture while that runs. Standard input is the socket through which
// the process notifies it, descriptor 3 its file in the session (session.h) and descriptor 4 the memory shared with it;
// 3 and 4 may be closed.
#pragma once

#include "recorder/writer/options.h"

namespace msda::record {

// Returns the exit status.
int follow(const Options& options);

}  // namespace msda::record
