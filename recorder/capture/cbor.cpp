#include "recorder/capture/cbor.h"

#include <nlohmann/json.hpp>

namespace msda::capture {

// Of characters, not of bytes: nlohmann/json 3.11.2 takes std::char_traits of what it reads, and libc++ has them for
// characters only.
nlohmann::json json_of_cbor(std::span<const std::byte> cbor) {
  const auto* begin = reinterpret_cast<const char*>(cbor.data());
  return nlohmann::json::from_cbor(begin, begin + cbor.size());
}

std::vector<uint8_t> cbor_of(const nlohmann::json& json) { return nlohmann::json::to_cbor(json); }

}  // namespace msda::capture
