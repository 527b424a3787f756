// Turns what the driver tells about a launch into what adapters take and what the capture holds.
#pragma once

#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/call_record.h"

namespace msda::record {

// The offsets and sizes of a function's parameters. Empty if the driver does not tell.
std::vector<adapters::Parameter> parameters_of(cuda::Function function, bool is_kernel);

// Copies their bytes by launch.parameters. False if they are missing.
bool read_parameters(const Launched& launched, adapters::Launch& launch);

// Identifies a launch, regardless of the contents of memory.
std::string key_of(const Launched& launched, const adapters::Launch& launch);

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call);

// Adds the launch configuration with which code was first launched: only one of an autotuner's variants remains a
// recorded call.
void add_launch(const Launched& launched, CodeFacts& code);

void add_parameters(const adapters::Launch& launch, LaunchRecord& record);

}  // namespace msda::record
