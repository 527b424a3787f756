// Copies device memory aside, on the device, and finds the pointers in it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "recorder/device/ptx.h"
#include "recorder/device/save_launch.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

// Needs the stream's context to be current. Saves one after another: the next may begin once the stream has done it.
class Saver {
 public:
  static Saver& instance();

  // Begins to copy the pieces, and to look for words in them that are addresses in `pointed_to`, but in no piece.
  // Returns false if the driver refuses.
  bool save(std::span<const SavedPiece> pieces, const DeviceRange& pointed_to, cuda::Stream stream) noexcept;
  // Returns those words, once the stream has found them; one may occur several times. Returns nothing if the driver
  // refuses, or there are more words than the device can return.
  std::optional<std::vector<uint64_t>> found(cuda::Stream stream) noexcept;
  // Only copies. Unlike the driver's copies it does not stop at the bounds of a module's variables.
  bool copy(std::span<const SavedPiece> pieces, cuda::Stream stream) noexcept { return save(pieces, {}, stream); }
  void context_ends(cuda::Context context) noexcept;

 private:
  struct Found {
    cuda::DevicePointer memory = 0;
    uint64_t count = 0;  // in the first word
  };
  Found* found_of_this_context(cuda::Stream stream);
  bool pin();

  std::mutex mutex_;
  OwnKernel kernel_{kSavePtx, kSaveKernel};
  std::map<cuda::Context, Found> found_;
  struct alignas(4096) Page {
    uint32_t any = 0;  // whether any was found
  };
  const std::unique_ptr<Page> page_ = std::make_unique<Page>();  // pinned, so that nobody has to copy it
  cuda::DevicePointer any_ = 0;                                  // the device's address of it; 0: not pinned
};

}  // namespace msda::record
