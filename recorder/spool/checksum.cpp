#include "recorder/spool/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>

namespace msda::spool {

uint64_t checksum_of(const FrameHeader& header, std::span<const std::byte> message,
                     std::span<const std::byte> payload) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &header, offsetof(FrameHeader, checksum));
  XXH3_64bits_update(&state, message.data(), message.size());
  XXH3_64bits_update(&state, payload.data(), payload.size());
  return XXH3_64bits_digest(&state);
}

std::string digest_of(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "xxh3-128:";
  for (const unsigned char byte : canonical.digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace msda::spool
