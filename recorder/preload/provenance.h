// Where a recording comes from: the run, its environment, its libraries, the seeds in its environment.
#pragma once

#include <string>
#include <vector>

#include "recorder/spool/messages.h"

namespace msda::record {

spool::Run run_of_this_process();
std::vector<spool::Seed> seeds_of_the_environment();

// ISO 8601, UTC.
std::string now();

}  // namespace msda::record
