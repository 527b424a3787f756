#include "recorder/process/cbor.h"

#include <nlohmann/json.hpp>

namespace msda::process {
namespace {

// Reads characters, not bytes: nlohmann/json 3.11.2 takes std::char_traits of what it reads, and libc++ has them for
// characters only.
template <class Json>
Json parse_cbor(std::span<const std::byte> cbor) {
  const auto* begin = reinterpret_cast<const char*>(cbor.data());
  return Json::from_cbor(begin, begin + cbor.size());
}

}  // namespace

nlohmann::json json_of_cbor(std::span<const std::byte> cbor) { return parse_cbor<nlohmann::json>(cbor); }
std::vector<uint8_t> cbor_of(const nlohmann::json& json) { return nlohmann::json::to_cbor(json); }

nlohmann::ordered_json ordered_json_of_cbor(std::span<const std::byte> cbor) {
  return parse_cbor<nlohmann::ordered_json>(cbor);
}
std::vector<uint8_t> cbor_of(const nlohmann::ordered_json& json) { return nlohmann::ordered_json::to_cbor(json); }

}  // namespace msda::process
