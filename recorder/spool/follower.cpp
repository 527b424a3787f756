#include "recorder/spool/follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

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

// What lies below the file's size does not change, except for frames that release() marks, which are not read again.
bool Follower::read_small(void* to, size_t size, uint64_t offset) const {
  constexpr uint64_t kWindow = 1 << 16;
  if (offset < window_begin_ || offset + size > window_begin_ + window_.size()) {
    window_.resize(static_cast<size_t>(std::min(std::max<uint64_t>(kWindow, size), known_bytes_ - offset)));
    window_begin_ = offset;
    if (window_.size() < size || !read_at(window_.data(), window_.size(), offset)) {
      window_.clear();
      return false;
    }
  }
  if (size > 0) std::memcpy(to, window_.data() + (offset - window_begin_), size);
  return true;
}

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

bool Follower::has_grown_to(uint64_t size) const {
  if (known_bytes_ < size) known_bytes_ = file_bytes();
  return known_bytes_ >= size;
}

uint64_t Follower::file_bytes() const {
  struct stat status {};
  return fstat(file_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

// Returns nothing if the file does not hold all of a frame there.
std::optional<Follower::Place> Follower::place_at(uint64_t offset) const {
  Place place{{}, offset};
  FrameHeader& header = place.header;
  if (!has_grown_to(place.message_offset()) || !read_small(&header, sizeof header, offset)) return std::nullopt;
  if (header.magic != FrameHeader::kMagic || header.message_bytes > FrameHeader::kLongestMessage ||
      header.payload_bytes > std::numeric_limits<uint64_t>::max() - place.message_offset() - header.message_bytes) {
    return std::nullopt;
  }
  return has_grown_to(place.end()) ? std::optional(place) : std::nullopt;
}

// Returns nothing if its checksum is wrong.
std::optional<Frame> Follower::read(const Place& place) const {
  const FrameHeader& header = place.header;
  Frame frame;
  frame.kind = static_cast<Kind>(header.kind);
  frame.begin = place.begin;
  frame.payload_offset = place.message_offset() + header.message_bytes;
  frame.payload_bytes = header.payload_bytes;
  frame.message.resize(header.message_bytes);
  const bool is_read = read_small(frame.message.data(), frame.message.size(), place.message_offset());
  return is_read && is_whole(header, frame) ? std::optional(std::move(frame)) : std::nullopt;
}

std::optional<Frame> Follower::next() {
  for (auto place = place_at(next_); place; place = place_at(next_)) {
    std::optional<Frame> frame;
    const bool is_released = place->header.kind == FrameHeader::kReleased;
    if (!is_released && !(frame = read(*place))) break;
    next_ = place->end();
    if (frame) return frame;
  }
  window_.clear();  // it may have been read while the file grew
  return std::nullopt;
}

const std::optional<Frame>& Follower::next_cut() {
  if (cut_ && cut_->begin < next_) cut_.reset();
  ahead_ = std::max(ahead_, next_);
  for (auto place = cut_ ? std::nullopt : place_at(ahead_); place; place = place_at(ahead_)) {
    if (place->header.kind == static_cast<uint32_t>(Kind::kCut)) {
      cut_ = read(*place);
      break;
    }
    ahead_ = place->end();
  }
  return cut_;
}

bool Follower::is_whole(const FrameHeader& header, const Frame& frame) const {
  constexpr uint64_t kPiece = 1 << 20, kSmall = 1 << 12;
  Checksum checksum(header, frame.message);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, frame.payload_bytes)));
  for (uint64_t at = 0; at < frame.payload_bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), frame.payload_bytes - at)));
    const auto read = frame.payload_bytes < kSmall ? &Follower::read_small : &Follower::read_at;
    if (!(this->*read)(piece.data(), piece.size(), frame.payload_offset + at)) return false;
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
  constexpr uint64_t kDiskBlock = 4096;
  if (pwrite(file_, &kind, sizeof kind, at) != sizeof kind || frame.payload_bytes < kDiskBlock) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(frame.payload_offset),
            static_cast<off_t>(frame.payload_bytes));
}

uint64_t Follower::trailing_bytes() const {
  const uint64_t size = file_bytes();
  return size > next_ ? size - next_ : 0;
}

}  // namespace msda::spool
