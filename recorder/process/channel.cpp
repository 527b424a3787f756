#include "recorder/process/channel.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

void Channel::allow(std::chrono::seconds patience) {
  const timeval time{patience.count(), 0};
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(socket_, SOL_SOCKET, which, &time, sizeof time);
  end_ = std::chrono::steady_clock::now() + patience;
}

bool Channel::send(Kind kind, std::span<const std::byte> bytes) const {
  const Frame frame{kind, bytes.size()};
  return send_all(socket_, std::as_bytes(std::span(&frame, 1))) && send_all(socket_, bytes);
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
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
    if (!bytes.empty() && std::chrono::steady_clock::now() > end_) {
      errno = EAGAIN;
      return false;
    }
  }
  return true;
}

std::optional<std::vector<std::byte>> Channel::receive_body(const Frame& frame) const {
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::vector<std::byte> body;
  while (body.size() < frame.bytes) {
    const size_t had = body.size();
    body.resize(had + std::min(kPieceBytes, frame.bytes - had));
    if (!receive_into(std::span(body).subspan(had))) return std::nullopt;
  }
  return body;
}

}  // namespace msda::process
