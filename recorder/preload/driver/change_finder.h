// Finds what launches change in device memory, on their own stream; no thread has to wait for it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "recorder/device/changed_launch.h"
#include "recorder/device/ptx.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/own_kernel.h"
#include "recorder/preload/driver/result_slots.h"

namespace msda::record {

// Changes that are being found.
class FoundChanges {
 public:
  FoundChanges() = default;
  FoundChanges(FoundChanges&& from) noexcept { *this = std::move(from); }
  FoundChanges& operator=(FoundChanges&& from) noexcept;
  ~FoundChanges();

  explicit operator bool() const { return !slots_.empty(); }
  bool ready() const;
  // Returns the changes in a piece, once ready.
  FoundInPiece operator[](size_t piece) const;

 private:
  friend class ChangeFinder;
  struct Slot {
    uint64_t *slot, sequence;
  };
  std::vector<Slot> slots_;  // for kMostSavedPieces pieces each
};

// Needs the stream's context to be current.
class ChangeFinder {
 public:
  static ChangeFinder& instance();

  // Compares each piece with its copy. `addresses` says which words are addresses. Returns nothing if the driver
  // refuses, or too much is under way.
  FoundChanges start(std::span<const SavedPiece> pieces, const DeviceRange& addresses, cuda::Stream stream) noexcept;
  void context_ends(cuda::Context context) noexcept;

 private:
  friend class FoundChanges;
  static constexpr size_t kSlots = 2048;
  bool launch(std::span<const SavedPiece> pieces, const DeviceRange& addresses, cuda::Stream stream,
              FoundChanges& changes);

  std::mutex mutex_;
  OwnKernel kernel_{kChangedPtx, kChangedKernel};
  ResultSlots slots_{kSlots, kChangedSlotBytes};
};

}  // namespace msda::record
