// Kernels whose results depend on memory that nobody wrote, and kernels that only look so; and the recorder's search
// for them.
#pragma once

#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

// All but the recorder's take (to, from, count), and their names begin with the verdict of a survey that poisons
// memory.
const std::vector<KernelCode>& unwritten_kernels();

}  // namespace msda::stand_in
