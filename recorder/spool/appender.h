// The target's side of a spool. Nothing here throws; after the first failure the spool ends with its last whole frame,
// and every later append() returns false.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "recorder/spool/messages.h"
#include "recorder/spool/owned_descriptor.h"

namespace msda::spool {

class Appender {
 public:
  Appender() = default;
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;

  // Creates the file, mode 0600; never follows a link or opens an existing file. Returns 0 or an errno.
  int open(const std::string& path) noexcept;
  // Returns the bytes that it wrote; 0 if the spool could not be written, now or before. Thread-safe.
  template <class Message>
  uint64_t append(const Message& message, std::span<const std::byte> payload = {}) noexcept {
    try {
      return append_frame(static_cast<uint32_t>(Message::kKind), encode(message), payload);
    } catch (...) {  // no memory
      return 0;
    }
  }
  int error() const { return error_; }  // errno of the first failure
  // Closes the descriptor and nothing else: in a forked child the file is the parent's, and so may be the lock.
  void close_in_child() noexcept { file_.close(); }

 private:
  uint64_t append_frame(uint32_t kind, const std::vector<std::byte>& message,
                        std::span<const std::byte> payload) noexcept;
  bool write_all(int file, std::span<const iovec> parts, uint64_t offset) noexcept;
  int descriptor() noexcept;

  std::mutex mutex_;
  std::string path_;
  OwnedDescriptor file_;
  int error_ = 0;
  uint64_t end_ = 0;
};

}  // namespace msda::spool
