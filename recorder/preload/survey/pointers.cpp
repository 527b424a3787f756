#include "recorder/preload/survey/pointers.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "recorder/device/ptx.h"
#include "recorder/device/scan_launch.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

constexpr size_t kBytesOfPointer = sizeof(uint64_t);

// From the first byte of them to the last.
DeviceRange hull_of(std::span<const DeviceRange> ranges) {
  uint64_t begin = ~uint64_t{0}, end = 0;
  for (const DeviceRange& range : ranges) {
    begin = std::min(begin, range.address);
    end = std::max(end, range.address + range.bytes);
  }
  return begin < end ? DeviceRange{begin, end - begin} : DeviceRange{};
}

}  // namespace

// 0 if there is no memory.
cuda::DevicePointer Pointers::found_of_this_context() {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess) return 0;
  cuda::DevicePointer& found = found_[context];
  if (found == 0 && cuda::allocate_own(found, kBytesOfPointer * (1 + kMostPointersFound)) != cuda::kSuccess) found = 0;
  return found;
}

std::optional<std::vector<uint64_t>> Pointers::scan(std::span<const DeviceRange> ranges, const DeviceRange& all,
                                                    cuda::Stream stream) {
  const cuda::Driver& driver = cuda::driver();
  const cuda::DevicePointer found = found_of_this_context();
  if (found == 0 || driver.set_bytes(found, 0, kBytesOfPointer, stream) != cuda::kSuccess) return std::nullopt;
  if (kernel_ == nullptr && cuda::load_kernel(kScanPtx, kScanKernel, kernel_) != cuda::kSuccess) return std::nullopt;
  while (!ranges.empty()) {
    const auto some = ranges.first(std::min(kMostScannedPieces, ranges.size()));
    ScanTable table(all.address, all.address + all.bytes, found);
    for (const DeviceRange& range : some) table.add(range.address, range.bytes);
    auto parameters = table.parameters();
    if (driver.launch(kernel_, table.blocks(), table.count(), 1, kScanThreads, 1, 1, 0, stream, parameters.data(),
                      nullptr) != cuda::kSuccess) {
      return std::nullopt;
    }
    ranges = ranges.subspan(some.size());
  }
  uint64_t count = 0;
  const auto get = [&](void* to, cuda::DevicePointer from, size_t bytes) {
    return driver.copy_to_host(to, from, bytes, stream) == cuda::kSuccess &&
           driver.synchronize(stream) == cuda::kSuccess;
  };
  if (!get(&count, found, kBytesOfPointer) || count > kMostPointersFound) return std::nullopt;
  std::vector<uint64_t> words(count);
  if (count > 0 && !get(words.data(), found + kBytesOfPointer, kBytesOfPointer * count)) return std::nullopt;
  return words;
}

bool Pointers::follow_on_host(Reach& reach, const DeviceRange& range, const DeviceRange& all) {
  constexpr uint64_t kMostBytes = 64 << 20;
  const std::byte* const memory = on_host(range.address);
  if (memory == nullptr) return true;  // of another device: tables there are not followed
  if (range.bytes > kMostBytes) return false;
  for (uint64_t at = 0; at + kBytesOfPointer <= range.bytes; at += kBytesOfPointer) {
    uint64_t word = 0;
    std::memcpy(&word, memory + at, kBytesOfPointer);
    if (word - all.address < all.bytes) reach.add_allocation_of(word);
  }
  return true;
}

bool Pointers::follow(Reach& reach, std::span<const DeviceRange> allocations, cuda::Stream stream) {
  const DeviceRange all = hull_of(allocations);
  for (size_t looked_at = 0;;) {
    const std::vector<DeviceRange> before(reach.ranges().begin(), reach.ranges().end());
    const auto words = before.empty() ? std::optional(std::vector<uint64_t>()) : scan(before, all, stream);
    if (!words) return false;
    for (const uint64_t word : std::set(words->begin(), words->end())) reach.add_allocation_of(word);
    const auto shared = reach.shared;  // sorted by address: what is found may come before what was looked at
    if (looked_at != shared.size()) {
      for (const DeviceRange& range : shared) {
        if (!follow_on_host(reach, range, all)) return false;
      }
      looked_at = shared.size();
    }
    if (reach.ranges().size() == before.size() && reach.shared.size() == looked_at) return true;
  }
}

void Pointers::context_ends() {
  kernel_ = nullptr;
  found_.clear();
}

}  // namespace msda::record
