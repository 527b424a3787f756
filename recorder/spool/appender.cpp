#include "recorder/spool/appender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "recorder/spool/checksum.h"
#include "recorder/spool/frame.h"
#include "recorder/spool/write_signals.h"

namespace msda::spool {

int Appender::open(const std::string& path) noexcept {
  const WriteSignalsHeld held;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return errno;  // nothing has changed: the caller may try another name
  file_ = OwnedDescriptor(file);
  try {
    path_ = path;
  } catch (...) {
    return error_ = ENOMEM;
  }
  const FileHeader header;
  const iovec whole{const_cast<FileHeader*>(&header), sizeof header};
  if (!write_all(file_.get(), {&whole, 1}, 0)) return error_;
  end_ = sizeof header;
  return 0;
}

// Opens the same file again if the program has closed it. If that fails, returns -1, and sets error_ to EBADF if the
// file is gone.
int Appender::descriptor() noexcept {
  if (const int known = file_.get(); known >= 0) return known;
  const int file = file_.was_opened() ? ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
  const bool is_other = file >= 0 && !file_.is_same_file(file);
  if (file >= 0 && !is_other) {
    file_ = OwnedDescriptor(file);
    if (const int again = file_.get(); again >= 0) return again;
  }
  error_ = file < 0 && errno == EMFILE ? EMFILE : EBADF;
  if (is_other) ::close(file);
  return -1;
}

uint64_t Appender::append_frame(uint32_t kind, const std::vector<std::byte>& message,
                                std::span<const std::byte> payload) noexcept {
  FrameHeader header;
  header.kind = kind;
  header.message_bytes = message.size();
  header.payload_bytes = payload.size();
  header.checksum = checksum_of(header, message, payload);
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return 0;
  const WriteSignalsHeld held;
  const int file = descriptor();
  if (file < 0) return 0;
  // A frame that is cut short has a wrong checksum.
  const uint64_t begin = end_;
  const iovec parts[] = {{&header, sizeof header},
                         {const_cast<std::byte*>(message.data()), message.size()},
                         {const_cast<std::byte*>(payload.data()), payload.size()}};
  if (!write_all(file, parts, begin)) {
    if (ftruncate(file, static_cast<off_t>(begin)) != 0) {
    }  // the checksum reveals it
    return 0;
  }
  end_ = begin + sizeof header + message.size() + payload.size();
  return end_ - begin;
}

bool Appender::write_all(int file, std::span<const iovec> parts, uint64_t offset) noexcept {
  iovec rest[3] = {};
  std::ranges::copy(parts, rest);
  for (size_t first = 0; first < parts.size();) {
    if (rest[first].iov_len == 0) {
      ++first;
      continue;
    }
    const int count = static_cast<int>(parts.size() - first);
    const ssize_t result = pwritev(file, rest + first, count, static_cast<off_t>(offset));
    if (result < 0 && errno == EINTR) continue;
    if (result <= 0) {
      error_ = result < 0 ? errno : ENOSPC;
      return false;
    }
    auto written = static_cast<size_t>(result);
    offset += written;
    for (size_t i = first; written > 0; ++i) {
      const size_t of_part = std::min(written, rest[i].iov_len);
      rest[i].iov_base = static_cast<char*>(rest[i].iov_base) + of_part;
      rest[i].iov_len -= of_part;
      written -= of_part;
    }
  }
  return true;
}

}  // namespace msda::spool
