// Where copies of rows and boxes write: CUDA_MEMCPY2D and CUDA_MEMCPY3D of cuda.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

enum class CopiedMemory : int { kHost = 1, kDevice, kArray, kUnified };  // CUmemorytype

struct CopyOfRows {
  struct Side {
    size_t x_bytes, y;
    CopiedMemory kind;
    void* host;
    cuda::DevicePointer device;
    void* array;
    size_t pitch;
  } from, to;
  size_t width_bytes, height;
};
static_assert(offsetof(CopyOfRows, to) == 56 && sizeof(CopyOfRows) == 128);

struct CopyOfBox {
  struct Side {
    size_t x_bytes, y, z, level;
    CopiedMemory kind;
    void* host;
    cuda::DevicePointer device;
    void *array, *reserved;
    size_t pitch, height;
  } from, to;
  size_t width_bytes, height, depth;
};
static_assert(offsetof(CopyOfBox, to) == 88 && sizeof(CopyOfBox) == 200);

inline bool is_linear(CopiedMemory kind) { return kind == CopiedMemory::kDevice || kind == CopiedMemory::kUnified; }

inline void note_rows(const CopyOfRows* copy, Unwritten& memory) noexcept {
  if (copy == nullptr || !is_linear(copy->to.kind)) return;
  const auto& to = copy->to;
  // A copy of one row may say nothing of a pitch.
  const size_t pitch = std::max(to.pitch, copy->width_bytes);
  memory.written_rows({to.device + to.y * pitch + to.x_bytes, copy->width_bytes}, pitch, copy->height);
}

inline void note_box(const CopyOfBox* copy, Unwritten& memory) noexcept {
  if (copy == nullptr || !is_linear(copy->to.kind)) return;
  const auto& to = copy->to;
  const size_t pitch = std::max(to.pitch, copy->width_bytes), height = std::max(to.height, copy->height);
  // The driver refuses boxes of more layers.
  constexpr size_t kMostLayers = 1 << 16;
  for (size_t z = 0; z < std::min(copy->depth, kMostLayers); ++z) {
    const cuda::DevicePointer layer = to.device + (to.z + z) * pitch * height;
    memory.written_rows({layer + to.y * pitch + to.x_bytes, copy->width_bytes}, pitch, copy->height);
  }
}

}  // namespace msda::record
