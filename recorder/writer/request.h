// What is wrong with a request, and what its user is to know, is said before the program runs: inside it, it could only
// be passed over.
#pragma once

#include <string>

#include "recorder/writer/options.h"

namespace msda::record {

// Checks what was asked for, and makes the adapters' paths absolute. Throws std::exception with one line that says what
// is wrong, and what to do.
void settle(Options& options);

// In the process that becomes the program: says what will be recorded where, as far as that is known. Returns the name
// that it gave for the output because the wanted one is taken, absolute; empty without one.
std::string announce(const Options& options);

}  // namespace msda::record
