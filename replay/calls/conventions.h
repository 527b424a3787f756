// The attributes of an invocation that are conventions of its operator.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "recorder/capture/capture.h"

namespace msda::replay {

// Returns the conventions that are facts of the invocation, by name: all but those of an operator with dialects.
nlohmann::ordered_json conventions_of(const capture::Invocation& invocation);
// "reduce mean, dim 0, include_self true"
std::string conventions_text(const capture::Invocation& invocation);

// Returns where the program called it: "train.py:12 forward", "backward pass of train.py:12 forward". Empty if that was
// not recorded.
std::string source_line_of(const capture::Invocation& invocation);

}  // namespace msda::replay
