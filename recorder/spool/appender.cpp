#include "recorder/spool/appender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "recorder/spool/checksum.h"
#include "recorder/spool/frame.h"
#include "recorder/spool/write_signals.h"

namespace msda::spool {

int Appender::open(const std::string& path) noexcept {
  const WriteSignalsHeld held;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return errno;  // the spool is as it was: another name may be tried
  file_ = OwnedDescriptor(file);
  try {
    path_ = path;
  } catch (...) {
    return error_ = ENOMEM;
  }
  const FileHeader header;
  if (!write_all(file_.get(), &header, sizeof header, 0)) return error_;
  end_ = sizeof header;
  return 0;
}

// The program may have closed it: then the same file is opened again. -1 if it cannot be.
int Appender::descriptor() noexcept {
  const int known = file_.get();
  if (known >= 0 || !file_.was_opened()) return known;
  const int file = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  if (!file_.is_same_file(file)) {
    ::close(file);
    return -1;
  }
  file_ = OwnedDescriptor(file);
  return file_.get();
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
  if (file < 0) {
    error_ = EBADF;
    return 0;
  }
  // The header last: a frame is there once its header is.
  const uint64_t begin = end_, at_message = begin + sizeof header, at_payload = at_message + message.size();
  if (!write_all(file, payload.data(), payload.size(), at_payload) ||
      !write_all(file, message.data(), message.size(), at_message) || !write_all(file, &header, sizeof header, begin)) {
    if (ftruncate(file, static_cast<off_t>(begin)) != 0) {
    }  // then the checksum tells
    return 0;
  }
  end_ = at_payload + payload.size();
  return end_ - begin;
}

bool Appender::write_all(int file, const void* data, size_t size, uint64_t offset) noexcept {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(file, from, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = written < 0 ? errno : ENOSPC;
      return false;
    }
    from += written;
    size -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace msda::spool
