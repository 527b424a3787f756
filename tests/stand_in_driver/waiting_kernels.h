// Kernels that take long, and kernels that wait for something that the program or another kernel does later.
#pragma once

#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

const std::vector<KernelCode>& waiting_kernels();

}  // namespace msda::stand_in
