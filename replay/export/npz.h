// A call as a NumPy archive, with the keys that `python3 -m msda_replay import` reads (docs/python.md).
#pragma once

#include <string>

#include "replay/export/exported_call.h"

namespace msda::replay {

// Writes to the temporary file `path`; errors name `shown`. Throws BadInput and Unavailable.
void write_npz(const std::string& path, const std::string& shown, const ExportedCall& call);

}  // namespace msda::replay
