// JSON as it goes from one process to another, in CBOR.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msda::process {

// Throws nlohmann::json::exception.
nlohmann::json json_of_cbor(std::span<const std::byte> cbor);
std::vector<uint8_t> cbor_of(const nlohmann::json& json);
// Keeps the members of objects in their order.
nlohmann::ordered_json ordered_json_of_cbor(std::span<const std::byte> cbor);
std::vector<uint8_t> cbor_of(const nlohmann::ordered_json& json);

}  // namespace msda::process
