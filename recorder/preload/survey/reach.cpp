#include "recorder/preload/survey/reach.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

// What an address may be, without asking the driver: no small number, and no wider than the device's addresses.
bool may_be_address(uint64_t word) {
  constexpr uint64_t kLeast = 1 << 16;
  constexpr int kBits = 57;
  return word >= kLeast && word >> kBits == 0;
}

// Nothing if the driver does not know the attribute of this address.
std::optional<unsigned> attribute_of(cuda::DevicePointer address, int attribute) {
  unsigned value = 0;
  const auto get = cuda::driver().pointer_attribute;
  return get(&value, attribute, address) == cuda::kSuccess ? std::optional(value) : std::nullopt;
}

// Keeps them sorted by address.
void add_to(std::vector<DeviceRange>& ranges, const DeviceRange& range) {
  if (range.bytes == 0) return;
  const auto at = std::ranges::upper_bound(ranges, range.address, {}, &DeviceRange::address);
  if (at != ranges.begin() && std::prev(at)->address + std::prev(at)->bytes > range.address) return;
  ranges.insert(at, range);
}

}  // namespace

bool is_memory_of_this_device(cuda::DevicePointer address) {
  constexpr int kMemoryType = 2, kDeviceOrdinal = 9, kAccess = 16;  // CU_POINTER_ATTRIBUTE_*, _ACCESS_FLAGS
  constexpr unsigned kDevice = 2, kReadAndWrite = 3;                // CU_MEMORYTYPE_DEVICE
  int device = 0;
  return attribute_of(address, kMemoryType) == kDevice && cuda::driver().current_device(&device) == cuda::kSuccess &&
         attribute_of(address, kDeviceOrdinal) == static_cast<unsigned>(device) &&
         attribute_of(address, kAccess).value_or(kReadAndWrite) == kReadAndWrite;  // older drivers do not tell it
}

const std::byte* on_host(cuda::DevicePointer address) {
  constexpr int kMemoryType = 2, kHostPointer = 4;  // CU_POINTER_ATTRIBUTE_*
  constexpr unsigned kHost = 1;                     // CU_MEMORYTYPE_HOST
  const void* pointer = nullptr;
  const bool is_host = attribute_of(address, kMemoryType) == kHost &&
                       cuda::driver().pointer_attribute(&pointer, kHostPointer, address) == cuda::kSuccess;
  return is_host ? static_cast<const std::byte*>(pointer) : nullptr;
}

void Reach::add(const DeviceRange& range) { add_to(ranges_, range); }

uint64_t Reach::bytes() const {
  uint64_t sum = 0;
  for (const auto* ranges : {&ranges_, &shared}) {
    for (const DeviceRange& range : *ranges) sum += range.bytes;
  }
  return sum;
}

bool Reach::has(uint64_t address) const {
  const auto after = std::ranges::upper_bound(ranges_, address, {}, &DeviceRange::address);
  return after != ranges_.begin() && address - std::prev(after)->address < std::prev(after)->bytes;
}

void Reach::add_allocation_of(uint64_t word) {
  cuda::DevicePointer base = 0;
  size_t bytes = 0;
  if (!may_be_address(word) || has(word)) return;
  if (cuda::driver().address_range(&base, &bytes, word) != cuda::kSuccess || word - base >= bytes) return;
  if (cuda::is_own(base)) return;
  if (is_memory_of_this_device(word)) {
    add({base, bytes});
  } else {
    add_to(shared, {base, bytes});
  }
}

Reach reach_of(std::span<const std::byte> parameters) {
  Reach reach;
  constexpr size_t kWord = sizeof(uint64_t);
  for (; parameters.size() >= kWord; parameters = parameters.subspan(kWord)) {
    uint64_t word = 0;
    std::memcpy(&word, parameters.data(), kWord);
    reach.add_allocation_of(word);
  }
  return reach;
}

}  // namespace msda::record
