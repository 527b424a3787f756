// Keeps a command from replacing what it reads.
#pragma once

#include <string>

namespace msda::replay {

// Throws BadInput if the file of -o is the one that is read, by whatever name.
void refuse_to_replace(const std::string& input, const std::string& output);

}  // namespace msda::replay
