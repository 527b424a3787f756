// The attributes of an invocation that are conventions of its operator.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "recorder/capture/capture.h"

namespace msda::replay {

// Returns, for operators other than deformable attention, the conventions that the invocation has, by name.
nlohmann::ordered_json conventions_of(const capture::Invocation& invocation);
// "reduce mean, dim 0, include_self true"
std::string conventions_text(const capture::Invocation& invocation);

}  // namespace msda::replay
