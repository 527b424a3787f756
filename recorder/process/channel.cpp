#include "recorder/process/channel.h"

#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "recorder/process/cbor.h"

namespace msda::process {
namespace {

bool send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

Channel::~Channel() { ::close(socket_); }

void Channel::allow(std::chrono::milliseconds patience, uint64_t message_bytes) {
  const timeval time{patience.count() / 1000, patience.count() % 1000 * 1000};
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(socket_, SOL_SOCKET, which, &time, sizeof time);
  end_ = std::chrono::steady_clock::now() + patience;
  most_message_bytes_ = message_bytes;
}

bool Channel::send(Kind kind, std::span<const std::byte> bytes) const {
  const Frame frame{kind, bytes.size()};
  return send_all(socket_, std::as_bytes(std::span(&frame, 1))) && send_all(socket_, bytes);
}

bool Channel::send(const nlohmann::json& message) const {
  const std::vector<uint8_t> bytes = nlohmann::json::to_cbor(message);
  return send(Kind::kMessage, std::as_bytes(std::span(bytes)));
}

bool Channel::send_data(std::span<const std::byte> data) const { return send(Kind::kData, data); }

std::optional<nlohmann::json> Channel::receive(const Room& room) const {
  while (const auto frame = receive_header()) {
    if (frame->kind == Kind::kMessage) return receive_message(frame->bytes);
    if (!receive_data(frame->bytes, room)) break;
  }
  return std::nullopt;
}

bool Channel::receive_data(const Room& room) const {
  const auto frame = receive_header();
  return frame && receive_data(frame->kind == Kind::kData ? frame->bytes : UINT64_MAX, room);
}

std::optional<Channel::Frame> Channel::receive_header() const {
  Frame frame{};
  if (!receive_into(std::as_writable_bytes(std::span(&frame, 1)))) return std::nullopt;
  return frame;
}

bool Channel::receive_into(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
    if (!bytes.empty() && std::chrono::steady_clock::now() > end_) {
      errno = EAGAIN;
      return false;
    }
  }
  return true;
}

// Memory grows with what has arrived, not with the size in the header.
std::optional<nlohmann::json> Channel::receive_message(uint64_t bytes) const {
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::vector<std::byte> body;
  while (bytes <= most_message_bytes_ && body.size() < bytes) {
    const size_t had = body.size();
    body.resize(had + std::min(kPieceBytes, bytes - had));
    if (!receive_into(std::span(body).subspan(had))) return std::nullopt;
  }
  try {
    return json_of_cbor<nlohmann::json>(body);  // nothing, if the message is too large
  } catch (const nlohmann::json::exception&) {
    errno = EBADMSG;
    return std::nullopt;
  }
}

bool Channel::receive_data(uint64_t bytes, const Room& room) const {
  const std::span<std::byte> data = room ? room(bytes) : std::span<std::byte>();
  if (data.size() == bytes) return receive_into(data);
  errno = EBADMSG;
  return false;
}

}  // namespace msda::process
