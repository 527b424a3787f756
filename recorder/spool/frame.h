// The layout of a spool file: a file header, then frames, each a frame header, a message (messages.h) and a payload of
// raw bytes. A spool is only appended to. It ends at a frame with a wrong checksum or beyond the end of the file: its
// process was killed there.
#pragma once

#include <cstdint>

namespace msda::spool {

struct FileHeader {
  char magic[12] = {'m', 's', 'd', 'a', '-', 's', 'p', 'o', 'o', 'l', '\n', 0};
  uint32_t version = kVersion;

  static constexpr uint32_t kVersion = 4;
};
static_assert(sizeof(FileHeader) == 16);

struct FrameHeader {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t message_bytes = 0, payload_bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 over the fields above, the message and the payload

  static constexpr uint32_t kMagic = 0x6d617266;  // "fram"
  // Far more than any message needs; the longest holds the process' arguments.
  static constexpr uint64_t kLongestMessage = 16 << 20;
  static constexpr uint32_t kReleased = 0;  // a kind: skipped, its payload may be gone
};
static_assert(sizeof(FrameHeader) == 32);

}  // namespace msda::spool
