// What copies of rows and boxes are told in: CUDA_MEMCPY2D and CUDA_MEMCPY3D of cuda.h.
#pragma once

#include <cstddef>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

enum class MemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };  // CU_MEMORYTYPE_*

// Whether the side is at an address of the device.
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

}  // namespace msda::record::cuda
