// What the driver tells of a launch, in the adapters' words and in the capture's.
#pragma once

#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/call_record.h"

namespace msda::record {

// Where a function's parameters lie. Empty if the driver does not tell.
std::vector<adapters::Parameter> parameters_of(cuda::Function function, bool is_kernel);

// Their bytes, where launch.parameters says. False if they are not there.
bool read_parameters(const Launched& launched, adapters::Launch& launch);

// Identifies a launch but for what is in memory.
std::string key_of(const Launched& launched, const adapters::Launch& launch);

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call);

// Of the code the launch that it was first seen in: of an autotuner's variants only one remains a recorded call.
void add_launch(const Launched& launched, CodeFacts& code);

void add_parameters(const adapters::Launch& launch, LaunchRecord& record);

}  // namespace msda::record
