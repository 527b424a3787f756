// Functions of cuda.h that allocate, free, copy or set memory, launch graphs or make streams: rows of table.h, of which
// only a survey does anything. Macros only.
#pragma once

// clang-format off
// A function and its twin for per-thread default streams.
#define MSDA_TWINS(X, name, suffix, parameters, arguments, handler, asked_for)                                         \
  X(name, cuda::Result, parameters, arguments, handler, asked_for, 13000, false)                                       \
  X(name##suffix, cuda::Result, parameters, arguments, handler, asked_for, 13000, true)

// From the first to the last, all of them.
#define MSDA_FIRST_MEMORY_HOOK cuMemAlloc_v2
#define MSDA_LAST_MEMORY_HOOK cuGraphLaunch_ptsz
#define MSDA_MEMORY_HOOKS(X)                                                                                           \
  X(cuMemAlloc_v2, cuda::Result, (cuda::DevicePointer* pointer, size_t bytes), (pointer, bytes), allocated_memory,     \
    "cuMemAlloc", 13000, false)                                                                                        \
  X(cuMemAllocManaged, cuda::Result, (cuda::DevicePointer* pointer, size_t bytes, unsigned flags), (pointer, bytes,    \
    flags), allocated_memory, "cuMemAllocManaged", 13000, false)                                                       \
  X(cuMemAllocPitch_v2, cuda::Result, (cuda::DevicePointer* pointer, size_t* pitch, size_t width, size_t height,       \
    unsigned element), (pointer, pitch, width, height, element), allocated_pitch, "cuMemAllocPitch", 13000, false)     \
  MSDA_TWINS(X, cuMemAllocAsync, _ptsz, (cuda::DevicePointer* pointer, size_t bytes, cuda::Stream stream), (pointer,   \
    bytes, stream), allocated_memory, "cuMemAllocAsync")                                                               \
  MSDA_TWINS(X, cuMemAllocFromPoolAsync, _ptsz, (cuda::DevicePointer* pointer, size_t bytes, cuda::Pool pool,          \
    cuda::Stream stream), (pointer, bytes, pool, stream), allocated_memory, "cuMemAllocFromPoolAsync")                 \
  X(cuMemMap, cuda::Result, (cuda::DevicePointer pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t       \
    flags), (pointer, bytes, offset, handle, flags), mapped_memory, "cuMemMap", 13000, false)                          \
  X(cuMemFree_v2, cuda::Result, (cuda::DevicePointer pointer), (pointer), freed_memory, "cuMemFree", 13000, false)     \
  MSDA_TWINS(X, cuMemFreeAsync, _ptsz, (cuda::DevicePointer pointer, cuda::Stream stream), (pointer, stream),          \
    freed_memory, "cuMemFreeAsync")                                                                                    \
  X(cuMemUnmap, cuda::Result, (cuda::DevicePointer pointer, size_t bytes), (pointer, bytes), freed_memory,             \
    "cuMemUnmap", 13000, false)                                                                                        \
  X(cuStreamCreate, cuda::Result, (cuda::Stream* stream, unsigned flags), (stream, flags), created_stream,             \
    "cuStreamCreate", 13000, false)                                                                                    \
  X(cuStreamCreateWithPriority, cuda::Result, (cuda::Stream* stream, unsigned flags, int priority), (stream, flags,    \
    priority), created_stream, "cuStreamCreateWithPriority", 13000, false)                                             \
  MSDA_TWINS(X, cuMemcpy, _ptds, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes), (to, from,          \
    bytes), undisturbed, "cuMemcpy")                                                                                   \
  MSDA_TWINS(X, cuMemcpyAsync, _ptsz, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream    \
    stream), (to, from, bytes, stream), undisturbed, "cuMemcpyAsync")                                                  \
  MSDA_TWINS(X, cuMemcpyHtoD_v2, _ptds, (cuda::DevicePointer to, const void* from, size_t bytes), (to, from, bytes),   \
    undisturbed, "cuMemcpyHtoD")                                                                                       \
  MSDA_TWINS(X, cuMemcpyHtoDAsync_v2, _ptsz, (cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream     \
    stream), (to, from, bytes, stream), undisturbed, "cuMemcpyHtoDAsync")                                              \
  MSDA_TWINS(X, cuMemcpyDtoH_v2, _ptds, (void* to, cuda::DevicePointer from, size_t bytes), (to, from, bytes),         \
    undisturbed, "cuMemcpyDtoH")                                                                                       \
  MSDA_TWINS(X, cuMemcpyDtoHAsync_v2, _ptsz, (void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream           \
    stream), (to, from, bytes, stream), undisturbed, "cuMemcpyDtoHAsync")                                              \
  MSDA_TWINS(X, cuMemcpyDtoD_v2, _ptds, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes), (to, from,   \
    bytes), undisturbed, "cuMemcpyDtoD")                                                                               \
  MSDA_TWINS(X, cuMemcpyDtoDAsync_v2, _ptsz, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes,          \
    cuda::Stream stream), (to, from, bytes, stream), undisturbed, "cuMemcpyDtoDAsync")                                 \
  MSDA_TWINS(X, cuMemcpy2D_v2, _ptds, (const void* copy), (copy), undisturbed, "cuMemcpy2D")                           \
  MSDA_TWINS(X, cuMemcpy2DAsync_v2, _ptsz, (const void* copy, cuda::Stream stream), (copy, stream), undisturbed,       \
    "cuMemcpy2DAsync")                                                                                                 \
  MSDA_TWINS(X, cuMemcpy3D_v2, _ptds, (const void* copy), (copy), undisturbed, "cuMemcpy3D")                           \
  MSDA_TWINS(X, cuMemcpy3DAsync_v2, _ptsz, (const void* copy, cuda::Stream stream), (copy, stream), undisturbed,       \
    "cuMemcpy3DAsync")                                                                                                 \
  MSDA_TWINS(X, cuMemcpyPeerAsync, _ptsz, (cuda::DevicePointer to, cuda::Context of_to, cuda::DevicePointer from,      \
    cuda::Context of_from, size_t bytes, cuda::Stream stream), (to, of_to, from, of_from, bytes, stream),              \
    undisturbed, "cuMemcpyPeerAsync")                                                                                  \
  MSDA_TWINS(X, cuMemsetD8_v2, _ptds, (cuda::DevicePointer to, unsigned char value, size_t count), (to, value,         \
    count), undisturbed, "cuMemsetD8")                                                                                 \
  MSDA_TWINS(X, cuMemsetD8Async, _ptsz, (cuda::DevicePointer to, unsigned char value, size_t count, cuda::Stream       \
    stream), (to, value, count, stream), undisturbed, "cuMemsetD8Async")                                               \
  MSDA_TWINS(X, cuMemsetD2D8Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned char value, size_t width,    \
    size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), undisturbed,                       \
    "cuMemsetD2D8Async")                                                                                               \
  MSDA_TWINS(X, cuMemsetD16_v2, _ptds, (cuda::DevicePointer to, unsigned short value, size_t count), (to, value,       \
    count), undisturbed, "cuMemsetD16")                                                                                \
  MSDA_TWINS(X, cuMemsetD16Async, _ptsz, (cuda::DevicePointer to, unsigned short value, size_t count, cuda::Stream     \
    stream), (to, value, count, stream), undisturbed, "cuMemsetD16Async")                                              \
  MSDA_TWINS(X, cuMemsetD2D16Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned short value, size_t         \
    width, size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), undisturbed,                \
    "cuMemsetD2D16Async")                                                                                              \
  MSDA_TWINS(X, cuMemsetD32_v2, _ptds, (cuda::DevicePointer to, unsigned value, size_t count), (to, value, count),     \
    undisturbed, "cuMemsetD32")                                                                                        \
  MSDA_TWINS(X, cuMemsetD32Async, _ptsz, (cuda::DevicePointer to, unsigned value, size_t count, cuda::Stream           \
    stream), (to, value, count, stream), undisturbed, "cuMemsetD32Async")                                              \
  MSDA_TWINS(X, cuMemsetD2D32Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned value, size_t width,        \
    size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), undisturbed,                       \
    "cuMemsetD2D32Async")                                                                                              \
  MSDA_TWINS(X, cuGraphLaunch, _ptsz, (cuda::GraphExec graph, cuda::Stream stream), (graph, stream), undisturbed,      \
    "cuGraphLaunch")
// clang-format on
