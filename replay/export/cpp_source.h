// The reproducer in C++: one file that needs no library.
#pragma once

#include <string>

#include "replay/export/exported_call.h"

namespace msda::replay {

// `file`: the name of the binary file that has the tensors; empty: they stand in the source.
std::string cpp_source(const ExportedCall& call, const std::string& file);

// Returns what that file holds: the tensors of the finding in the order of their names, as stored.
std::string tensor_bytes(const ExportedCall& call);

}  // namespace msda::replay
