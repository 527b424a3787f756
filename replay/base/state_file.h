// Files in which a command keeps how far it has come. They lie about, and may come from anywhere: hostile input.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "replay/base/json.h"

namespace msda::replay {

// Returns what stands at the path; nothing if nothing does. Throws Json::exception or std::invalid_argument for what is
// no state: no regular file, no JSON, larger or deeper than a state is.
std::optional<Json> read_state(const std::string& path);

// Returns the same of a file that is only read: follows links.
std::optional<Json> read_kept_json(const std::string& path);

// Returns a whole number within bounds. Throws std::invalid_argument.
int64_t whole_number(const Json& number, int64_t least, int64_t most);

// Returns the digest of what a state keeps, which it contains.
std::string digest_of(const Json& json);

}  // namespace msda::replay
