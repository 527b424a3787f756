// JSON whose objects keep the order in which their members were added: what the commands print.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace msda::replay {

using Json = nlohmann::ordered_json;

// Writes JSON for another process: names of files need not be UTF-8. Throws nlohmann::json::exception.
std::string bytes_of(const Json& json);
Json json_of_bytes(std::string_view bytes);

// Returns a member, which is there, in what the program itself has made.
int64_t count_at(const Json& json, const char* name);
std::string text_at(const Json& json, const char* name);

// Returns a number with so many digits; the text that stands for NaN or an infinity; "-" for null.
std::string number_text(const Json& number, int digits = 9);

// Returns a value without quotes, and lists with spaces.
std::string plain_text(const Json& value);

// On one line, in UTF-8. Bytes that are not UTF-8, of a file's name for example, become U+FFFD.
std::string line_of(const Json& json);

// Writes JSON as --json does: in ASCII, so that control characters are escaped; indented; U+FFFD as above.
std::string text_of(const Json& json);

}  // namespace msda::replay

// Formats as plain_text().
template <>
struct fmt::formatter<msda::replay::Json> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const msda::replay::Json& json, Context& context) const {
    return fmt::formatter<std::string>::format(msda::replay::plain_text(json), context);
  }
};
