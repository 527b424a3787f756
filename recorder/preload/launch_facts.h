// What the driver tells of a launch, in the adapters' words and in the capture's.
#pragma once

#include <string>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/launch.h"
#include "recorder/preload/recording.h"

namespace msda::record {

// Where the parameters lie, and their bytes. False if the driver does not tell.
bool read_parameters(const Launched& launched, bool is_kernel, adapters::Launch& launch);

// What makes two launches the same but for what is in memory.
std::string key_of(const Launched& launched, const adapters::Launch& launch);

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call);

// Of the code the launch that it was first seen in: of an autotuner's variants only one remains a recorded call.
void add_launch(const Launched& launched, CodeFacts& code);

void add_parameters(const adapters::Launch& launch, LaunchRecord& record);

}  // namespace msda::record
