// Where a recording comes from: the run, its environment, its libraries, the seeds in its environment.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "recorder/spool/messages.h"

namespace msda::record {

spool::Run run_of_this_process();
std::vector<spool::Seed> seeds_of_the_environment();

// Returns ISO 8601, UTC, to the millisecond.
std::string iso_8601(const timespec& time);
std::string now();

}  // namespace msda::record
