// Checksums of frames and digests of tensors, inlined, so that the preload brings no symbol of xxHash into its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "recorder/spool/frame.h"

namespace msda::spool {

uint64_t checksum_of(const FrameHeader& header, std::span<const std::byte> message, std::span<const std::byte> payload);

// "xxh3-128:" and 32 hexadecimal digits, as in the capture file.
std::string digest_of(std::span<const std::byte> bytes);

}  // namespace msda::spool
