// What a capture holds, as `show --json` prints it.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// Returns a line: that the capture holds a trail, and what compares it.
std::string trail_line(const std::string& capture, int64_t launches);

// Everything but its invocations, which are an empty list.
nlohmann::ordered_json shown_capture(const std::string& capture, const capture::IsolatedReader& reader);
// Reads every tensor, for its extremes.
nlohmann::ordered_json shown_invocation(const capture::IsolatedReader& reader, const capture::Invocation& invocation);

}  // namespace msda::replay
