// Messages between a process and its child over a socket: a kind, a length and bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace msda::capture {

class Channel {
 public:
  enum class Kind : uint64_t { kMessage, kData };  // data: a piece of a tensor
  struct Frame {
    Kind kind;
    uint64_t bytes;
  };

  explicit Channel(int socket) : socket_(socket) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // False if the other side has ended, as below.
  bool send(Kind kind, std::span<const std::byte> bytes) const;
  std::optional<Frame> receive_header() const;
  bool receive_into(std::span<std::byte> bytes) const;
  // Memory grows with what has arrived, not with what the header promises.
  std::optional<std::vector<std::byte>> receive_body(const Frame& frame) const;

 private:
  int socket_;
};

}  // namespace msda::capture
