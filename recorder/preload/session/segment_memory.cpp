#include "recorder/preload/session/segment_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "recorder/preload/session/own_thread.h"
#include "recorder/spool/write_signals.h"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace msda::record {

struct SegmentMemory::Mapping {
  Mapping(std::byte* memory, uint64_t size) : data(memory), bytes(size) {}
  ~Mapping() { munmap(data, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Works in parts: while one is allocated, no other thread of the program can map memory.
  void populate() noexcept {
    constexpr uint64_t kPart = 4 << 20;
    for (uint64_t at = 0; at < bytes && !abandoned; at += kPart) {
      if (madvise(data + at, std::min(kPart, bytes - at), MADV_POPULATE_WRITE) != 0) {
        state = State::kFailed;
        return;
      }
    }
    state = State::kReady;
  }

  // Maps the part so that a forked child does not get it, because it does not need it.
  static std::shared_ptr<Mapping> map(int file, uint64_t offset, uint64_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_DONTFORK);
    try {
      return std::make_shared<Mapping>(static_cast<std::byte*>(memory), bytes);
    } catch (const std::bad_alloc&) {
      munmap(memory, bytes);
      return nullptr;
    }
  }

  std::byte* const data;
  const uint64_t bytes;
  std::atomic<State> state{State::kUnderWay};
  std::atomic<bool> abandoned{false};
};

SegmentMemory::SegmentMemory(std::shared_ptr<Mapping> mapping, uint64_t offset, uint64_t bytes) noexcept
    : mapping_(std::move(mapping)), offset_(offset), bytes_(bytes) {}

SegmentMemory::~SegmentMemory() { mapping_->abandoned = true; }

SegmentMemory::State SegmentMemory::state() const noexcept { return mapping_->state; }

std::byte* SegmentMemory::data() const noexcept { return mapping_->data; }

std::unique_ptr<SegmentMemory> SegmentMemory::prepare(int file, uint64_t offset, uint64_t bytes) noexcept {
  try {
    {
      const spool::WriteSignalsHeld held;  // the limit on file sizes applies to this file, too
      if (ftruncate(file, static_cast<off_t>(offset + bytes)) != 0) return nullptr;
    }
    auto mapping = Mapping::map(file, offset, bytes);
    if (!mapping) return nullptr;
    auto memory = std::unique_ptr<SegmentMemory>(new SegmentMemory(mapping, offset, bytes));
    auto shared = std::make_unique<std::shared_ptr<Mapping>>(std::move(mapping));
    const auto run = [](void* argument) -> void* {
      const std::unique_ptr<std::shared_ptr<Mapping>> mine(static_cast<std::shared_ptr<Mapping>*>(argument));
      (*mine)->populate();
      return nullptr;
    };
    if (!start_own_thread(run, shared.get())) return nullptr;
    shared.release();
    return memory;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::unique_ptr<SegmentMemory> SegmentMemory::make(int file, uint64_t offset, uint64_t bytes) noexcept {
  try {
    auto mapping = Mapping::map(file, offset, bytes);  // before the file grows: if it fails, nothing has changed
    if (!mapping) return nullptr;
    const spool::WriteSignalsHeld held;
    if (fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) return nullptr;
    mapping->state = State::kReady;
    return std::unique_ptr<SegmentMemory>(new SegmentMemory(std::move(mapping), offset, bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace msda::record
