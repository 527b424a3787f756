// The writer's side of a spool: reads complete frames, in order, from a file that may still be growing or that a killed
// process left behind.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "recorder/spool/frame.h"
#include "recorder/spool/messages.h"

namespace msda::spool {

// The file is not a spool, or cannot be read. The message names it.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Frame {
  Kind kind{};
  std::vector<std::byte> message;
  uint64_t begin = 0, payload_offset = 0, payload_bytes = 0;  // in the file
};

class Follower {
 public:
  explicit Follower(const std::string& path);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // The next complete frame, with a valid checksum; nothing if there is none, or none yet.
  std::optional<Frame> next();
  std::vector<std::byte> payload(const Frame& frame) const;
  // Marks a frame so that readers skip it, and frees its disk space. Best effort.
  void release(const Frame& frame) const;
  // The number of bytes after the last complete frame.
  uint64_t trailing_bytes() const;

 private:
  bool is_whole(const FrameHeader& header, const Frame& frame) const;
  bool read_at(void* to, size_t size, uint64_t offset) const;
  uint64_t file_bytes() const;

  int file_ = -1;
  uint64_t next_ = 0;
};

}  // namespace msda::spool
