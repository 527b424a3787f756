#include "recorder/spool/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>

namespace msda::spool {

struct Checksum::State {
  XXH3_state_t state;
};

Checksum::Checksum(const FrameHeader& header, std::span<const std::byte> message) : state_(new State) {
  XXH3_64bits_reset(&state_->state);
  XXH3_64bits_update(&state_->state, &header, offsetof(FrameHeader, checksum));
  add(message);
}

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> piece) { XXH3_64bits_update(&state_->state, piece.data(), piece.size()); }

uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->state); }

uint64_t checksum_of(const FrameHeader& header, std::span<const std::byte> message,
                     std::span<const std::byte> payload) {
  Checksum checksum(header, message);
  checksum.add(payload);
  return checksum.value();
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
