// The writer's side of a spool: reads complete frames, in order, from a file that may still be growing or that a killed
// process left behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorder/spool/frame.h"
#include "recorder/spool/messages.h"

namespace msda::spool {

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

  // Returns the next complete frame, with a valid checksum; nothing if there is none, or none yet.
  std::optional<Frame> next();
  // Returns the first complete cut that next() has not given yet; nothing if there is none, or none yet. Looks at each
  // frame once.
  const std::optional<Frame>& next_cut();
  std::vector<std::byte> payload(const Frame& frame) const;
  // Marks a frame so that readers skip it, and frees its disk space. Best effort.
  void release(const Frame& frame) const;
  // Returns the number of bytes after the last complete frame.
  uint64_t trailing_bytes() const;

 private:
  struct Place {
    FrameHeader header;
    uint64_t begin = 0;
    uint64_t message_offset() const { return begin + sizeof header; }
    uint64_t end() const { return message_offset() + header.message_bytes + header.payload_bytes; }
  };
  std::optional<Place> place_at(uint64_t offset) const;
  std::optional<Frame> read(const Place& place) const;
  bool is_whole(const FrameHeader& header, const Frame& frame) const;
  bool read_at(void* to, size_t size, uint64_t offset) const;
  bool read_small(void* to, size_t size, uint64_t offset) const;
  bool has_grown_to(uint64_t size) const;
  uint64_t file_bytes() const;

  int file_ = -1;
  uint64_t next_ = 0, ahead_ = 0;
  std::optional<Frame> cut_;
  mutable uint64_t known_bytes_ = 0;  // of the file, which grows
  // Bytes of the file from an offset on: most frames are small.
  mutable std::vector<std::byte> window_;
  mutable uint64_t window_begin_ = 0;
};

}  // namespace msda::spool
