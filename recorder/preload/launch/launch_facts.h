// Turns what the driver reports about a launch into what adapters take and what the capture holds.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/call_record.h"

namespace msda::record {

// Returns the offsets and sizes of a function's parameters. Empty if the driver does not report them.
std::vector<adapters::Parameter> parameters_of(cuda::Function function, bool is_kernel);

// A function's parameters as the driver reports them.
struct Layout {
  std::string kernel;
  std::vector<adapters::Parameter> parameters;
};

// Writes to `key` what identifies a launch, regardless of the contents of memory. Returns false if its parameters are
// missing. Runs before a launch, on a thread of the program: a key that is used again needs no allocation.
bool identify(const Launched& launched, const Layout& layout, std::string& key);

// Returns how many bytes a function's parameters take.
size_t bytes_of(const Layout& layout);

// Copies a launch's parameters to their offsets in so many bytes. Returns false, with nothing copied, if they are
// missing.
bool read_parameters(const Launched& launched, const Layout& layout, std::span<std::byte> bytes);

// Returns the bytes of a launch's parameters, at their offsets. Nothing if they are missing.
std::optional<std::vector<std::byte>> parameter_bytes(const Launched& launched, const Layout& layout);

// Returns the launch as adapters see it, if its parameters are not missing.
adapters::Launch launch_of(const Launched& launched, const Layout& layout);

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call);

// Adds the launch configuration with which code was first launched: only one of an autotuner's variants remains a
// recorded call.
void add_launch(const Launched& launched, CodeFacts& code);

void add_parameters(const adapters::Launch& launch, LaunchRecord& record);

}  // namespace msda::record
