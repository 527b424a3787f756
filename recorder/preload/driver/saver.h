// Copies device memory aside, on the device, and says what pointers there are in it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "recorder/device/ptx.h"
#include "recorder/device/save_launch.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

class Saver {
 public:
  static Saver& instance();

  // Copies the pieces, and gives the words in them that are addresses in `pointed_to`, but in no piece; a word may come
  // several times. Waits for the stream. Nothing if the driver refuses, or there are more than the device can tell of.
  // Needs the stream's context to be current.
  std::optional<std::vector<uint64_t>> save(std::span<const SavedPiece> pieces, const DeviceRange& pointed_to,
                                            cuda::Stream stream) noexcept;
  // Copies them, no more, and waits for nothing. Unlike the driver's copies it knows no bounds within a module's
  // variables. False if the driver refuses.
  bool copy(std::span<const SavedPiece> pieces, cuda::Stream stream) noexcept;
  void context_ends() noexcept;

 private:
  struct Found {
    cuda::DevicePointer memory = 0;
    uint64_t count = 0;  // in the first word
  };
  Found* found_of_this_context(cuda::Stream stream);
  bool start(std::span<const SavedPiece> pieces, const DeviceRange& pointed_to, const Found& found,
             cuda::Stream stream);

  std::mutex mutex_;
  OwnKernel kernel_{kSavePtx, kSaveKernel};
  std::map<cuda::Context, Found> found_;
};

}  // namespace msda::record
