// What the recorder launches for a trail, and what trail_client.cpp launches.
#pragma once

#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

const std::vector<KernelCode>& trail_kernels();

}  // namespace msda::stand_in
