// What a stored result is called where it stands beside other sides.
#pragma once

#include <string>

namespace msda::replay {

// Returns its own name, or "stored NAME" if its name is that of a side.
std::string shown_name(const std::string& name);

}  // namespace msda::replay
