// The recorder's kernel that reads what twins left in memory (recorder/device/evidence_launch.h), by its description.
#pragma once

#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

const std::vector<KernelCode>& evidence_kernels();

}  // namespace msda::stand_in
