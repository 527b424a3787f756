#include "replay/base/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "recorder/process/cbor.h"

namespace msda::replay {

std::string bytes_of(const Json& json) {
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Json json_of_bytes(std::string_view bytes) { return process::json_of_cbor<Json>(std::as_bytes(std::span(bytes))); }

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_of(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"; }

int64_t count_at(const Json& json, const char* name) { return json.at(name).get<int64_t>(); }

std::string text_at(const Json& json, const char* name) { return json.at(name).get<std::string>(); }

std::string number_text(const Json& number, int digits) {
  if (number.is_null()) return "-";
  return number.is_string() ? number.get<std::string>() : fmt::format("{:.{}g}", number.get<double>(), digits);
}

std::string plain_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return line_of(value);
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(plain_text(part));
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace msda::replay
