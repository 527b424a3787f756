// The writer: makes a capture of the spool of a process while that runs. Standard input is that process' doorbell,
// descriptor 3 its file in the session (session.h) and descriptor 4 the memory shared with it, if there are any.
#pragma once

#include "recorder/writer/options.h"

namespace msda::record {

// The exit status.
int follow(const Options& options);

}  // namespace msda::record
