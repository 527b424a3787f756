// The attributes of a recorded call, from the target's message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "recorder/capture/capture.h"
#include "recorder/spool/messages.h"

namespace msda::record {

std::optional<int64_t> integer(const std::map<std::string, int64_t>& integers, const char* name);

// Returns a call's facts. `count` is null for a call without duplicates.
capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count);

}  // namespace msda::record
