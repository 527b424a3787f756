// The attributes of a recorded call, from what the target said of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "recorder/capture/capture.h"
#include "recorder/spool/messages.h"

namespace msda::record {

std::optional<int64_t> integer(const std::map<std::string, int64_t>& integers, const char* name);

// `count` is null for a call that did not come again.
capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count);

}  // namespace msda::record
