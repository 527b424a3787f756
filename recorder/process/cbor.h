// JSON as it goes from one process to another, in CBOR, which Json::to_cbor() makes.
#pragma once

#include <cstddef>
#include <span>

namespace msda::process {

// `Json`: nlohmann::json, or ordered_json, which keeps the order of members. Throws Json::exception.
//
// Reads characters, not bytes: nlohmann/json 3.11.2 takes std::char_traits of what it reads, and libc++ has them for
// characters only.
template <class Json>
Json json_of_cbor(std::span<const std::byte> cbor) {
  const auto* begin = reinterpret_cast<const char*>(cbor.data());
  return Json::from_cbor(begin, begin + cbor.size());
}

}  // namespace msda::process
