// The reproducer in Python: one file for pytest, which needs NumPy alone.
#pragma once

#include <string>

#include "replay/export/exported_call.h"

namespace msda::replay {

// `archive`: the name of the .npz file beside it that has the tensors; empty: they stand in the source.
std::string python_source(const ExportedCall& call, const std::string& archive);

}  // namespace msda::replay
