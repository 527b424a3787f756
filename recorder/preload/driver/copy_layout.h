// The structures that describe copies of rows and boxes: CUDA_MEMCPY2D and CUDA_MEMCPY3D of cuda.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

enum class MemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };  // CU_MEMORYTYPE_*

// Returns whether the side is at an address of the device.
inline bool is_linear(MemoryType type) { return type == MemoryType::kDevice || type == MemoryType::kUnified; }

struct CopyOfRows {
  struct Side {
    size_t x, y;
    MemoryType type;
    void* host;
    DevicePointer device;
    void* array;
    size_t pitch;
  } from, to;
  size_t width, height;  // bytes, and rows
};
static_assert(offsetof(CopyOfRows, to) == 56 && sizeof(CopyOfRows) == 128);

struct CopyOfBox {
  struct Side {
    size_t x, y, z, level;
    MemoryType type;
    void* host;
    DevicePointer device;
    void* array;
    void* reserved;
    size_t pitch, height;
  } from, to;
  size_t width, height, depth;
};
static_assert(offsetof(CopyOfBox, to) == 88 && sizeof(CopyOfBox) == 200);

// Visits the rows of each layer that a copy has on one of its sides: visit(first row's address, bytes of a row, pitch,
// rows). Visits nothing if that side is not at an address of the device.
template <class Visit>
void for_each_layer(const CopyOfRows& copy, const CopyOfRows::Side& side, Visit&& visit) {
  if (!is_linear(side.type)) return;
  // A copy of one row may leave its pitch unset.
  const size_t pitch = std::max(side.pitch, copy.width);
  visit(side.device + side.y * pitch + side.x, copy.width, pitch, copy.height);
}
template <class Visit>
void for_each_layer(const CopyOfBox& copy, const CopyOfBox::Side& side, Visit&& visit) {
  if (!is_linear(side.type)) return;
  const size_t pitch = std::max(side.pitch, copy.width), height = std::max(side.height, copy.height);
  // The driver refuses boxes of more layers.
  constexpr size_t kMostLayers = 1 << 16;
  for (size_t z = 0; z < std::min(copy.depth, kMostLayers); ++z) {
    const DevicePointer layer = side.device + (side.z + z) * pitch * height;
    visit(layer + side.y * pitch + side.x, copy.width, pitch, copy.height);
  }
}

}  // namespace msda::record::cuda
