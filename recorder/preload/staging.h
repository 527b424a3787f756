// Pinned host memory that device tensors are copied into: a few blocks a thread, which grow as needed.
#pragma once

#include <cstddef>

namespace msda::record {

class Staging {
 public:
  // Outputs have two blocks that take turns, so that the last call's stay while the next one's are copied.
  enum Use { kInputs, kOutputs, kOtherOutputs };
  static Staging& of_this_thread(Use use);

  // Of at least this size, null if there is none. What was reserved before is lost.
  std::byte* reserve(size_t bytes) noexcept;
  static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace msda::record
