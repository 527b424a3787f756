#include "recorder/spool/follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "recorder/spool/checksum.h"
#include "recorder/spool/frame.h"

namespace msda::spool {

Follower::Follower(const std::string& path) {
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw Error(path + ": cannot open it: " + std::strerror(errno));
  FileHeader header;
  const FileHeader expected;
  next_ = sizeof header;
  // If the process was killed before the header was complete, the spool counts as one without frames.
  const auto there = static_cast<size_t>(std::min<uint64_t>(file_bytes(), sizeof header));
  const bool is_read = read_at(&header, there, 0);
  if (!is_read || std::memcmp(header.magic, expected.magic, std::min(there, sizeof header.magic)) != 0) {
    close(file_);
    throw Error(path + ": is not a spool of msda-record");
  }
  if (there < sizeof header) return;
  if (header.version != FileHeader::kVersion) {
    close(file_);
    throw Error(path + ": has spool version " + std::to_string(header.version) + ", this program reads version " +
                std::to_string(FileHeader::kVersion));
  }
}

Follower::~Follower() { close(file_); }

bool Follower::read_at(void* to, size_t size, uint64_t offset) const {
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = pread(file_, bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

uint64_t Follower::file_bytes() const {
  struct stat status {};
  return fstat(file_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

std::optional<Frame> Follower::next() {
  for (;;) {
    FrameHeader header;
    const uint64_t size = file_bytes();
    if (size < next_ + sizeof header || !read_at(&header, sizeof header, next_)) return std::nullopt;
    const uint64_t left = size - next_ - sizeof header;
    if (header.magic != FrameHeader::kMagic || header.message_bytes > FrameHeader::kLongestMessage ||
        header.message_bytes > left || header.payload_bytes > left - header.message_bytes) {
      return std::nullopt;
    }
    Frame frame;
    frame.kind = static_cast<Kind>(header.kind);
    frame.begin = next_;
    frame.payload_offset = next_ + sizeof header + header.message_bytes;
    frame.payload_bytes = header.payload_bytes;
    if (header.kind == FrameHeader::kReleased) {
      next_ = frame.payload_offset + frame.payload_bytes;
      continue;
    }
    frame.message.resize(header.message_bytes);
    if (!read_at(frame.message.data(), frame.message.size(), next_ + sizeof header)) return std::nullopt;
    if (!is_whole(header, frame)) return std::nullopt;
    next_ = frame.payload_offset + frame.payload_bytes;
    return frame;
  }
}

bool Follower::is_whole(const FrameHeader& header, const Frame& frame) const {
  constexpr uint64_t kPiece = 1 << 20;
  Checksum checksum(header, frame.message);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, frame.payload_bytes)));
  for (uint64_t at = 0; at < frame.payload_bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), frame.payload_bytes - at)));
    if (!read_at(piece.data(), piece.size(), frame.payload_offset + at)) return false;
    checksum.add(piece);
  }
  return checksum.value() == header.checksum;
}

std::vector<std::byte> Follower::payload(const Frame& frame) const {
  std::vector<std::byte> bytes(frame.payload_bytes);
  if (!read_at(bytes.data(), bytes.size(), frame.payload_offset)) throw Error("has become shorter");
  return bytes;
}

void Follower::release(const Frame& frame) const {
  const uint32_t kind = FrameHeader::kReleased;
  const auto at = static_cast<off_t>(frame.begin + offsetof(FrameHeader, kind));
  if (pwrite(file_, &kind, sizeof kind, at) != sizeof kind || frame.payload_bytes == 0) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(frame.payload_offset),
            static_cast<off_t>(frame.payload_bytes));
}

uint64_t Follower::trailing_bytes() const {
  const uint64_t size = file_bytes();
  return size > next_ ? size - next_ : 0;
}

}  // namespace msda::spool
