// JSON of what another process has sent as CBOR.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>

namespace msda::capture {

// Of characters, not of bytes: nlohmann/json 3.11.2 takes std::char_traits of what it reads, and libc++ has them for
// characters only.
inline nlohmann::json json_of_cbor(std::span<const std::byte> cbor) {
  const auto* begin = reinterpret_cast<const char*>(cbor.data());
  return nlohmann::json::from_cbor(begin, begin + cbor.size());
}

}  // namespace msda::capture
