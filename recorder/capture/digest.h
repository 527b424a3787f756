// Digests of tensor bytes and code images: XXH3-128, written "xxh3-128:" and 32 hexadecimal digits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace msda::capture {

// Of the bytes as they lie in the file: row-major, little-endian.
std::string digest(std::span<const std::byte> bytes);

}  // namespace msda::capture
