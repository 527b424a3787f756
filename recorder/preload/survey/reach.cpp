#include "recorder/preload/survey/reach.h"

#include <algorithm>
#include <cstring>

#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/survey/foreign_memory.h"

namespace msda::record {
namespace {

// Returns whether a word may be an address, without asking the driver: no small number, and no wider than the device's
// addresses.
bool may_be_address(uint64_t word) {
  constexpr uint64_t kLeast = 1 << 16;
  constexpr int kBits = 57;
  return word >= kLeast && word >> kBits == 0;
}

constexpr unsigned kHost = 1, kDevice = 2;  // CU_MEMORYTYPE_*

// What the driver knows of an address.
struct Place {
  cuda::DevicePointer base = 0;  // of its allocation
  size_t bytes = 0;
  unsigned type = 0;  // 0: the driver does not know it
  int device = -1;
  unsigned access = 0;
  void* on_host = nullptr;

  bool is_of_this_device() const {
    constexpr unsigned kReadAndWrite = 3;
    int current = 0;
    return type == kDevice && access == kReadAndWrite && cuda::driver().current_device(&current) == cuda::kSuccess &&
           device == current;
  }
};

Place place_of(cuda::DevicePointer address) {
  // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, RANGE_SIZE, MEMORY_TYPE, DEVICE_ORDINAL, ACCESS_FLAGS, HOST_POINTER. Asking
  // for them together costs a tenth of asking one by one, most of all for words that are no address.
  constexpr int kAttributes[] = {11, 12, 2, 9, 16, 4};
  Place place;
  void* values[] = {&place.base, &place.bytes, &place.type, &place.device, &place.access, &place.on_host};
  static_assert(std::size(kAttributes) == std::size(values));
  const cuda::Result result = cuda::driver().pointer_attributes(std::size(kAttributes), kAttributes, values, address);
  return result == cuda::kSuccess && place.type != 0 ? place : Place{};
}

// Keeps them sorted by address.
void add_to(std::vector<DeviceRange>& ranges, const DeviceRange& range) {
  if (range.bytes == 0) return;
  const auto at = std::ranges::upper_bound(ranges, range.address, {}, &DeviceRange::address);
  if (at != ranges.begin() && std::prev(at)->address + std::prev(at)->bytes > range.address) return;
  ranges.insert(at, range);
}

}  // namespace

bool is_memory_of_this_device(cuda::DevicePointer address) { return place_of(address).is_of_this_device(); }

std::optional<int> device_of(cuda::DevicePointer address) {
  constexpr unsigned kReadAndWrite = 3;
  const Place place = place_of(address);
  return place.type == kDevice && place.access == kReadAndWrite ? std::optional(place.device) : std::nullopt;
}

Allocation allocation_of(cuda::DevicePointer address) {
  const Place place = place_of(address);
  if (address - place.base >= place.bytes) return {};
  return {{place.base, place.bytes}, place.type == kHost || place.on_host != nullptr};
}

const std::byte* on_host(cuda::DevicePointer address) {
  const Place place = place_of(address);
  return place.type == kHost ? static_cast<const std::byte*>(place.on_host) : nullptr;
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
  if (!may_be_address(word) || has(word)) return;
  const Place place = place_of(word);
  if (word - place.base >= place.bytes || cuda::is_own(place.base)) return;
  const DeviceRange allocation{place.base, place.bytes};
  if (place.is_of_this_device() && !ForeignMemory::instance().has(allocation)) {
    add(allocation);
    is_of_host_as_well_ |= place.on_host != nullptr;
  } else {
    add_to(shared, allocation);
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
