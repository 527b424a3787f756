// Where a copy of rows or boxes lies on the device.
#pragma once

#include <algorithm>
#include <cstddef>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

// Returns whether the side is at an address of the device.
inline bool is_linear(MemoryType type) { return type == MemoryType::kDevice || type == MemoryType::kUnified; }

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
