// Messages and data between a process and its child over a socket. Neither side trusts what the other sends.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace msda::process {

class Channel {
 public:
  // Returns the memory for data of so many bytes; memory of another size refuses them.
  using Room = std::function<std::span<std::byte>(uint64_t bytes)>;

  explicit Channel(int socket) : socket_(socket) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // Limits each wait from now on, and the size of each message: after this time sending and receiving fail, or, if
  // bytes arrive now and then, after at most twice that time.
  void allow(std::chrono::milliseconds patience, uint64_t message_bytes = UINT64_MAX);

  // All of them fail if the other side has ended. errno is then 0 or EPIPE; EAGAIN if the time is over; EBADMSG if what
  // arrives is neither a message nor data that there is room for.
  bool send(const nlohmann::json& message) const;
  bool send_data(std::span<const std::byte> data) const;
  // Receives a message, and the data that precede it.
  std::optional<nlohmann::json> receive(const Room& room = {}) const;
  bool receive_data(const Room& room) const;

 private:
  enum class Kind : uint64_t { kMessage, kData };
  struct Frame {
    Kind kind;
    uint64_t bytes;
  };
  bool send(Kind kind, std::span<const std::byte> bytes) const;
  std::optional<Frame> receive_header() const;
  bool receive_into(std::span<std::byte> bytes) const;
  std::optional<nlohmann::json> receive_message(uint64_t bytes) const;
  bool receive_data(uint64_t bytes, const Room& room) const;

  int socket_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  uint64_t most_message_bytes_ = UINT64_MAX;
};

}  // namespace msda::process
