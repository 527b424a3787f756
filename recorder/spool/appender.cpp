#include "recorder/spool/appender.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>

#include "recorder/spool/checksum.h"
#include "recorder/spool/frame.h"

namespace msda::spool {
namespace {

// A write beyond the file size limit raises SIGXFSZ, which would end the host: held back, it is an error like any
// other.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalHeld() {
    const timespec at_once{};
    if (sigismember(&before_, SIGXFSZ) == 0) {
      while (sigtimedwait(&signal_, nullptr, &at_once) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_, before_;
};

}  // namespace

Appender::~Appender() {
  if (file_ >= 0) close(file_);
}

void Appender::abandon() noexcept {
  if (file_ >= 0) close(file_);
  file_ = -1;
  error_ = 0;
  end_ = 0;
  // The thread that held the lock, if any did, is not in this process.
  new (&mutex_) std::mutex;
}

int Appender::open(const std::string& path) noexcept {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file_ < 0) return errno;  // the spool is as it was: another name may be tried
  const FileHeader header;
  const FileSizeSignalHeld held;
  if (!write_all(&header, sizeof header, 0)) return error_;
  end_ = sizeof header;
  return 0;
}

bool Appender::append_frame(uint32_t kind, const std::vector<std::byte>& message,
                            std::span<const std::byte> payload) noexcept {
  FrameHeader header;
  header.kind = kind;
  header.message_bytes = message.size();
  header.payload_bytes = payload.size();
  header.checksum = checksum_of(header, message, payload);
  const std::lock_guard lock(mutex_);
  if (file_ < 0 || error_ != 0) return false;
  const FileSizeSignalHeld held;
  // The header last: a frame is there once its header is.
  const uint64_t begin = end_, at_message = begin + sizeof header, at_payload = at_message + message.size();
  if (!write_all(payload.data(), payload.size(), at_payload) ||
      !write_all(message.data(), message.size(), at_message) || !write_all(&header, sizeof header, begin)) {
    if (ftruncate(file_, static_cast<off_t>(begin)) != 0) {
    }  // then the checksum tells
    return false;
  }
  end_ = at_payload + payload.size();
  return true;
}

bool Appender::write_all(const void* data, size_t size, uint64_t offset) noexcept {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(file_, from, size, static_cast<off_t>(offset));
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
