// Computes digests of device memory on a launch's own stream; no thread has to wait for them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "recorder/device/digest.h"
#include "recorder/device/digest_launch.h"
#include "recorder/device/ptx.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/own_kernel.h"
#include "recorder/preload/driver/result_slots.h"

namespace msda::record {

struct DeviceRange {
  uint64_t address, bytes;
};

inline bool overlap(const DeviceRange& a, const DeviceRange& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}
// Returns whether any of some ranges overlaps any of the others.
inline bool overlap(std::span<const DeviceRange> some, std::span<const DeviceRange> others) {
  return std::ranges::any_of(some, [&](const DeviceRange& a) {
    return std::ranges::any_of(others, [&](const DeviceRange& b) { return overlap(a, b); });
  });
}

// Digests being computed. When they are ready, everything that was enqueued on the stream before them has finished.
class Digests {
 public:
  Digests() = default;
  Digests(Digests&& from) noexcept { *this = std::move(from); }
  Digests& operator=(Digests&& from) noexcept;
  ~Digests();

  explicit operator bool() const { return slot_ != nullptr; }
  bool ready() const;
  // Returns whether they become ready only with those of Digester::extend() or finish().
  bool is_open() const { return handed_over_ < count_; }
  // Returns the digest of the range with this index, once ready.
  Digest operator[](size_t range) const;

 private:
  friend class Digester;
  uint64_t* slot_ = nullptr;  // in pinned memory: a sequence number, then two sums for each digest
  uint64_t sequence_ = 0;
  std::array<uint8_t, kMostDigests> of_range_{};  // the index among the digests; kNone for an empty range
  size_t ranges_ = 0;
  unsigned count_ = 0, handed_over_ = 0;  // of the digests that the device computes: so far, and those in the slot
  static constexpr uint8_t kNone = 255;
};

class Digester {
 public:
  static Digester& instance();
  static constexpr size_t kMostRanges = kMostDigestRanges;

  // Returns nothing, with the reason in `failure`, if the device cannot compute them: the driver refused, too many
  // ranges, or all slots are in use. Needs the stream's context to be current. `before`: how many of each range's first
  // bytes, less than 16, count as zeros; empty: none.
  Digests start(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure,
                std::span<const uint8_t> before = {}) noexcept;
  // As start(), but the digests become ready only with those of extend(): the stream's next work does not wait for
  // their way to the host.
  Digests begin(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure) noexcept;
  // Digests more ranges, whose indices follow those of the ranges before. Returns false, with nothing changed, where
  // start() would return nothing.
  bool extend(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream,
              std::string& failure) noexcept;

  // Makes the slot of open digests that nobody will extend reusable. `ranges` are those that begin() was given.
  void finish(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream) noexcept;

  // Called when a context ends, and with it everything that the recorder has on its device (cudaDeviceReset). Digests
  // that are not ready by then never will be.
  void context_ends(cuda::Context context) noexcept;

 private:
  friend class Digests;
  static constexpr size_t kSlots = 4096;

  bool launch(Digests& digests, std::span<const DeviceRange> ranges, std::span<const uint8_t> before,
              cuda::Stream stream, bool hands_over, std::string& failure) noexcept;
  void give_back(uint64_t* slot, uint64_t sequence);

  std::mutex mutex_;
  OwnKernel kernel_{kDigestPtx, kDigestKernel};
  ResultSlots slots_{kSlots, kDigestSlotBytes};
};

}  // namespace msda::record
