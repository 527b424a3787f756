// Runs a program with the recorder loaded into it, and waits for its captures.
#pragma once

#include "recorder/writer/options.h"

namespace msda::record {

// Returns the exit status: the program's own, or 128 plus the number of the signal that ended it. Throws std::exception
// if it cannot be started.
int run(const Options& options);

}  // namespace msda::record
