// A digest of memory that a device computes at its memory's speed (digest.ptx), and that this header computes on the
// host.
//
// 128 bits: two sums modulo 2^64 over the memory's 16-byte pieces, so the order of additions does not matter. A piece
// at offset `at`, read as two little-endian numbers a and b, the last one filled up with zeros, adds to sum i
//     low ^ high of the 128-bit product (a ^ (at * K + X[i])) * (b ^ (at * K + Y[i])).
// It distinguishes contents that occur in programs. It is no defence against contents made to collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace msda::record {

struct Digest {
  uint64_t first = 0, second = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

inline std::string in_hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {digest.first, digest.second}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[half >> shift & 15];
  }
  return text;
}

// Returns a tensor's type, shape and digest: "float32 4x5440x8x32 0123...".
inline std::string describe_digest(const std::string& type, const std::vector<int64_t>& shape, const Digest& digest) {
  std::string text = type;
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? " " : "x") + std::to_string(shape[i]);
  return text + " " + in_hex(digest);
}

// Computes the digest on the host. A null `data` stands for zeros.
inline Digest digest_on_host(const std::byte* data, size_t size) {
  __extension__ using Wide = unsigned __int128;
  const auto fold = [](uint64_t x, uint64_t y) {
    const Wide product = static_cast<Wide>(x) * y;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  Digest digest;
  for (size_t at = 0; at < size; at += 16) {
    uint64_t piece[2] = {};
    if (data != nullptr) std::memcpy(piece, data + at, size - at < 16 ? size - at : 16);
    const uint64_t key = at * 0x9E3779B97F4A7C15;
    digest.first += fold(piece[0] ^ (key + 0xA0761D6478BD642F), piece[1] ^ (key + 0xE7037ED1A0B428DB));
    digest.second += fold(piece[0] ^ (key + 0x8EBC6AF09C88C6E3), piece[1] ^ (key + 0x589965CC75374CC3));
  }
  return digest;
}

}  // namespace msda::record
