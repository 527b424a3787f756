// Checks of the machine.
#pragma once

#include <string>
#include <vector>

#include "replay/doctor/check.h"

namespace msda::replay {

Check check_cupti(int driver_version);
// Whether libmsda has kernels for GPUs, and whether the driver can run them.
Check check_kernels(int driver_version);
Check check_disk();
Check check_limits();
// Checks the files of MSDA_RECORD_ADAPTERS and of --adapter. Returns nothing if there are none.
std::vector<Check> check_adapters(const std::vector<std::string>& asked);
// Starts the CUDA driver in this process. Sets the driver's version, 13000 for CUDA 13.0; 0 if there is none.
Check check_driver(int& version);

}  // namespace msda::replay
