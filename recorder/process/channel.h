// Messages between a process and its child over a socket: a kind, a length and bytes each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace msda::process {

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

  // Limits each wait from now on: after this time sending and receiving fail with errno EAGAIN, or, if bytes arrive now
  // and then, after at most twice that time.
  void allow(std::chrono::seconds patience);

  // Returns false if the other side has ended, as the functions below do.
  bool send(Kind kind, std::span<const std::byte> bytes) const;
  std::optional<Frame> receive_header() const;
  bool receive_into(std::span<std::byte> bytes) const;
  // Memory grows with what has arrived, not with the size in the header.
  std::optional<std::vector<std::byte>> receive_body(const Frame& frame) const;

 private:
  int socket_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace msda::process
