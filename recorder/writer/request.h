// Reports errors and limits of a request before the program runs: inside the program an error could only be ignored.
#pragma once

#include <string>

#include "recorder/writer/options.h"

namespace msda::record {

// Checks the options, and makes the adapters' paths absolute. Throws std::exception with one line that says what is
// wrong and what to do.
void settle(Options& options);

// Called in the process that becomes the program: prints the limit, and the output's name if the wanted one exists.
// Returns that other name, absolute; empty if the wanted one is free.
std::string announce(const Options& options);

// Returns where msda-record may make a folder if it cannot in TMPDIR: beside the captures.
std::string fallback_folder(const Options& options);

}  // namespace msda::record
