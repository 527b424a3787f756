// Where a command's results and messages go. What cannot be written fails the command.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "replay/lines.h"

namespace msda::replay {

// Gives closed standard descriptors something that fails: a file opened later must not take their place.
void keep_standard_descriptors();

// To standard output, at once. Throws BadInput.
void print(const Lines& lines);
// As it is: for JSON, which escapes control characters itself, and for the texts of --help.
void print_raw(std::string_view text);

// One line on standard error: "msda-replay: MESSAGE".
void print_error(std::string_view message);

// Writes what --json asks for: to standard output for "-". A file appears whole or not at all; what is no regular file
// (a pipe, /dev/stdout) is written as it is. Throws BadInput.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace msda::replay
