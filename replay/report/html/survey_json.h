// What pages read of a survey's JSON (docs/survey.schema.json, docs/survey-many.schema.json).
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "replay/base/json.h"

namespace msda::replay {

inline int64_t count_of(const Json& json, const char* name) { return json.at(name).get<int64_t>(); }

inline std::string text_of(const Json& json, const char* name) { return json.at(name).get<std::string>(); }

// Of a kernel, in one survey or in several.
inline bool does_vary(const Json& kernel) { return count_of(kernel, "varied") > 0; }

inline bool reads_unwritten(const Json& kernel) { return text_of(kernel, "verdict") == "reads_unwritten"; }

inline bool may_differ(const Json& kernel) { return does_vary(kernel) || reads_unwritten(kernel); }

}  // namespace msda::replay
