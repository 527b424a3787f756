// Digests of device memory, computed on a launch's own stream; no thread has to wait for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/device/digest.h"
#include "recorder/device/digest_launch.h"
#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

struct DeviceRange {
  uint64_t address, bytes;
};

// Digests being computed. When they are ready, everything that was enqueued on the stream before them has finished.
class Digests {
 public:
  Digests() = default;
  Digests(Digests&& other) noexcept { *this = std::move(other); }
  Digests& operator=(Digests&& other) noexcept;
  ~Digests();

  explicit operator bool() const { return slot_ != nullptr; }
  bool ready() const;
  // The digest of the range with this index, once ready.
  Digest operator[](size_t range) const;

 private:
  friend class Digester;
  uint64_t* slot_ = nullptr;  // in pinned memory: a sequence number, then two sums for each range
  uint64_t sequence_ = 0;
  std::array<uint8_t, kMostDigestRanges> of_range_{};  // the index among the sums; kNone for an empty range
  static constexpr uint8_t kNone = 255;
};

class Digester {
 public:
  static Digester& instance();
  static constexpr size_t kMostRanges = kMostDigestRanges;

  // Empty, with the reason in `failure`, if the device cannot compute them: the driver refused, too many ranges, or all
  // slots are in use. Needs the stream's context to be current.
  Digests start(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure) noexcept;

  // A context ends, and with it everything that the recorder has on its device (cudaDeviceReset). Digests that are not
  // ready by then never will be.
  void context_ends() noexcept;

 private:
  friend class Digests;
  static constexpr size_t kSlots = 4096, kSlotBytes = kDigestSlotBytes;

  bool map_slots();
  bool prepare(std::string& failure);
  cuda::DevicePointer sums_of_this_context(std::string& failure);
  void give_back(uint64_t* slot);

  std::mutex mutex_;
  cuda::Function kernel_ = nullptr;
  std::byte* slots_ = nullptr;  // host memory that the driver does not own: digests being computed outlive a context
  bool pinned_ = false;
  std::vector<uint64_t*> free_;
  uint64_t next_sequence_ = 1;
  std::map<cuda::Context, cuda::DevicePointer> sums_;  // for every slot, on the device
};

}  // namespace msda::record
