// Keeps a command from replacing what it reads.
#pragma once

#include <string>

namespace msda::replay {

// Throws BadInput if the file of -o is the one that is read, by whatever name.
void refuse_to_replace(const std::string& input, const std::string& output);

// Throws BadInput if --json names a file that the command writes, too.
void refuse_same_outputs(const std::string& output, const std::string& json);

}  // namespace msda::replay
