// Checksums of frames and digests of tensors, inlined, so that the preload brings no symbol of xxHash into the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "recorder/spool/frame.h"

namespace msda::spool {

uint64_t checksum_of(const FrameHeader& header, std::span<const std::byte> message, std::span<const std::byte> payload);

// As checksum(), for a payload that arrives in pieces.
class Checksum {
 public:
  Checksum(const FrameHeader& header, std::span<const std::byte> message);
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(std::span<const std::byte> piece);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns "xxh3-128:" and 32 hexadecimal digits, as in the capture file.
std::string digest_of(std::span<const std::byte> bytes);

}  // namespace msda::spool
