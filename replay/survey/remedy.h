// What to type so that a kernel does not vary any more (remedies/).
#pragma once

#include <string>

namespace msda::replay {

struct Remedy {
  std::string type;    // a line to type
  std::string note;    // what else is to be known
  std::string source;  // a page of this project's, or an address
};

// Finds the remedy by the kernel's name, as it stands in its source. Returns null if nothing is known.
const Remedy* remedy_for(const std::string& kernel);

}  // namespace msda::replay
