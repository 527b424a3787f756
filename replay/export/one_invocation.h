// A capture of one invocation of another capture.
#pragma once

#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// What of the recorded program's surroundings goes along.
enum class Surroundings { kAll, kAnonymous };

// Returns what a capture records of the program and the machine: all of it; or without what may name a person or a
// project: arguments, environment, host, process, the folders of libraries.
capture::Run run_of(const capture::IsolatedReader& reader, Surroundings surroundings);

// Takes out of it what a person or another tool may have written: label, process, all attributes but conventions and
// those of a launch, the names of results.
void make_anonymous(capture::Invocation& invocation);

// Writes to the temporary file `path`; errors name `shown`. The invocation becomes number 0, with its seeds, and all of
// its tensors; with its kernel's image, too, unless anonymous: an image may name source files. Throws BadInput, and
// capture::Error of the reader.
void write_one_invocation(const std::string& path, const std::string& shown, const capture::IsolatedReader& reader,
                          const capture::Invocation& invocation, Surroundings surroundings);

}  // namespace msda::replay
