// Appends a recording's frames to its spool, up to its limits. After the first error nothing more is appended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "recorder/preload/session/call_record.h"
#include "recorder/preload/session/config.h"
#include "recorder/spool/appender.h"

namespace msda::record {

class FrameStream {
 public:
  explicit FrameStream(const Config& config) : config_(config) {}

  // Finds a free name for the output, and reserves it by creating the spool beside it. Returns why that failed, or
  // nothing.
  std::string open();
  const std::string& output() const { return output_; }
  const std::string& spool_path() const { return spool_path_; }

  // Returns the bytes appended, those in the shared memory included; 0 if the stream has ended. Thread-safe, as are the
  // next functions.
  template <class Message>
  uint64_t append(const Message& message, std::span<const std::byte> payload = {}) {
    return append_sized(message, payload, 0);
  }
  // Appends a call's first frame, before its tensors, and its last, with digests if there are any.
  uint64_t append_begin(const CallFacts& facts, uint64_t invocation, uint32_t attempt);
  uint64_t append_end(uint64_t invocation, uint32_t attempt, const std::map<std::string, std::string>& digests);
  // Appends a call's tensors. For tensors in `block` of the shared memory, unless it is null, only their place is
  // appended.
  uint64_t append_tensors(uint64_t invocation, uint32_t attempt, const char* section,
                          const std::vector<HostTensor>& tensors, const RingBlock* block = nullptr);
  // The writer drops these bytes: they no longer count towards the limit.
  void dropped(uint64_t bytes);

  bool has_ended() const { return ended_; }
  // Returns why the stream ended by itself; returned once.
  std::optional<std::string> take_trouble();

  void close_in_child() { spool_.close_in_child(); }

 private:
  template <class Message>
  uint64_t append_sized(const Message& message, std::span<const std::byte> payload, uint64_t in_shared_memory) {
    if (ended_ || !has_room(payload.size() + in_shared_memory)) return 0;
    const uint64_t in_spool = spool_.append(message, payload);
    if (in_spool == 0) {
      end(cannot_write());
      return 0;
    }
    bytes_ += in_spool + in_shared_memory;
    return in_spool + in_shared_memory;
  }
  bool may_replace(const std::string& output) const;
  bool has_room(uint64_t bytes);
  std::string cannot_write() const;
  void end(std::string why);

  const Config& config_;
  std::string output_, spool_path_, folder_;
  spool::Appender spool_;
  std::atomic<bool> ended_{false}, told_{false};
  std::atomic<uint64_t> bytes_{0}, since_look_{0};
  uint64_t least_free_ = 0;  // bytes that must stay free on the disk
  std::mutex trouble_mutex_;
  std::string trouble_;
};

}  // namespace msda::record
