// Memory of the shared file for the ring's next segment, made ready by a thread of its own before the program needs it.
//
// To pin memory, the driver needs its pages. If they are allocated and mapped already, pinning 512 MiB takes 19 ms;
// otherwise 150 to 220 ms, in which no thread of the program can launch anything, and allocating them 55 to 100 ms
// before (an H100's machine, driver 580).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace msda::record {

class SegmentMemory {
 public:
  // Extends the file to `offset + bytes`, maps that part, and has its pages allocated in the background. Returns null
  // if that cannot be done here; the file may be longer then.
  static std::unique_ptr<SegmentMemory> prepare(int file, uint64_t offset, uint64_t bytes) noexcept;
  // Allocates the pages before it returns. Returns null if there is no memory.
  static std::unique_ptr<SegmentMemory> make(int file, uint64_t offset, uint64_t bytes) noexcept;

  ~SegmentMemory();
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;

  enum class State { kUnderWay, kReady, kFailed };
  State state() const noexcept;

  uint64_t offset() const noexcept { return offset_; }
  uint64_t bytes() const noexcept { return bytes_; }
  // Returns memory that is valid as long as this object. Its pages may be touched once it is ready: before, one without
  // memory would be a SIGBUS in the program.
  std::byte* data() const noexcept;

 private:
  struct Mapping;
  SegmentMemory(std::shared_ptr<Mapping> mapping, uint64_t offset, uint64_t bytes) noexcept;

  std::shared_ptr<Mapping> mapping_;  // the thread's, too
  uint64_t offset_, bytes_;
};

}  // namespace msda::record
