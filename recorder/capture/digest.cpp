#include "recorder/capture/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace msda::capture {

std::string digest(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace msda::capture
