// What the adapters share: a launch's parameters, and checks of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recorder/adapters/adapter.h"

namespace msda::adapters {

// A parameter as the kernel declares it. A scalar is aligned to its size, a struct to its largest member.
struct Slot {
  constexpr Slot(uint64_t bytes = 1) : size(bytes), alignment(bytes) {}  // NOLINT: implicit, for lists of scalars
  constexpr Slot(uint64_t bytes, uint64_t aligned_to) : size(bytes), alignment(aligned_to) {}
  uint64_t size, alignment;
};

// Returns whether the launch has exactly these parameters, in this order and within its bytes.
bool has_layout(const Launch& launch, std::span<const Slot> slots);

// Returns "17 parameters of 4 8 8 ... bytes", for a refusal.
std::string describe_layout(const Launch& launch);

// Returns the parameter with this index; the launch's layout must have been checked.
template <typename T>
T parameter(const Launch& launch, size_t index) {
  T value;
  std::memcpy(&value, launch.bytes.data() + launch.parameters[index].offset, sizeof value);
  return value;
}

// Returns index and tensor of each pointer that is a parameter, or lies at the beginning of one.
std::vector<Pointer> pointers_at(const Launch& launch,
                                 std::initializer_list<std::pair<size_t, const char*>> parameters);

// Returns the configuration for a grid-stride loop over n, as CUDA's samples launch it.
LaunchShape shape_of_loop(int64_t n, uint32_t threads, uint32_t shared_bytes);

// Returns the product of the factors; nothing if one is not positive or the product does not fit into 63 bits.
std::optional<int64_t> product(std::span<const int64_t> factors);

// Returns why this tensor is invalid: a null pointer, a size that is not positive, a negative stride, or more bytes
// from the first element to the last than 63 bits can count. Every tensor of a call must be checked by it.
std::optional<Refusal> fault_of(const DeviceTensor& tensor);

// Returns the call, or why one of its tensors is invalid.
Decoded checked(Call call);

// Removes strides that say no more than the shape: those of a contiguous, row-major tensor.
void drop_row_major_strides(DeviceTensor& tensor);

}  // namespace msda::adapters
