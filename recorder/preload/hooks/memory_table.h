// Functions of cuda.h that allocate, free, copy or set memory, or make streams: rows of table.h, of which
// only surveys and trails do anything. Macros only. Handlers of functions that write memory say where; those of
// functions that let others write it, as another process, do not know.
#pragma once

// clang-format off
// A function and its twin for per-thread default streams.
#define MSDA_TWINS(X, name, suffix, parameters, arguments, handler, asked_for)                                         \
  X(name, cuda::Result, parameters, arguments, handler, asked_for, 13000, false)                                       \
  X(name##suffix, cuda::Result, parameters, arguments, handler, asked_for, 13000, true)

#define MSDA_FIRST_WATCHING_HOOK cuMemAlloc_v2  // up to the last of graph_table.h
#define MSDA_MEMORY_HOOKS(X)                                                                                           \
  X(cuMemAlloc_v2, cuda::Result, (cuda::DevicePointer* pointer, size_t bytes), (pointer, bytes), allocated_memory,     \
    "cuMemAlloc", 13000, false)                                                                                        \
  X(cuMemAllocManaged, cuda::Result, (cuda::DevicePointer* pointer, size_t bytes, unsigned flags), (pointer, bytes,    \
    flags), allocated_managed, "cuMemAllocManaged", 13000, false)                                                      \
  X(cuMemHostAlloc, cuda::Result, (void** pointer, size_t bytes, unsigned flags), (pointer, bytes, flags),             \
    pinned_memory, "cuMemHostAlloc", 13000, false)                                                                     \
  X(cuMemAllocHost_v2, cuda::Result, (void** pointer, size_t bytes), (pointer, bytes), pinned_memory,                  \
    "cuMemAllocHost", 13000, false)                                                                                    \
  X(cuMemHostRegister_v2, cuda::Result, (void* memory, size_t bytes, unsigned flags), (memory, bytes, flags),          \
    pinned_memory, "cuMemHostRegister", 13000, false)                                                                  \
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
    bytes), copied_memory, "cuMemcpy")                                                                                 \
  MSDA_TWINS(X, cuMemcpyAsync, _ptsz, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream    \
    stream), (to, from, bytes, stream), copied_memory, "cuMemcpyAsync")                                                \
  MSDA_TWINS(X, cuMemcpyHtoD_v2, _ptds, (cuda::DevicePointer to, const void* from, size_t bytes), (to, from, bytes),   \
    copied_memory, "cuMemcpyHtoD")                                                                                     \
  MSDA_TWINS(X, cuMemcpyHtoDAsync_v2, _ptsz, (cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream     \
    stream), (to, from, bytes, stream), copied_memory, "cuMemcpyHtoDAsync")                                            \
  MSDA_TWINS(X, cuMemcpyDtoH_v2, _ptds, (void* to, cuda::DevicePointer from, size_t bytes), (to, from, bytes),         \
    copied_to_host, "cuMemcpyDtoH")                                                                                       \
  MSDA_TWINS(X, cuMemcpyDtoHAsync_v2, _ptsz, (void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream           \
    stream), (to, from, bytes, stream), copied_to_host, "cuMemcpyDtoHAsync")                                              \
  MSDA_TWINS(X, cuMemcpyDtoD_v2, _ptds, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes), (to, from,   \
    bytes), copied_memory, "cuMemcpyDtoD")                                                                             \
  MSDA_TWINS(X, cuMemcpyDtoDAsync_v2, _ptsz, (cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes,          \
    cuda::Stream stream), (to, from, bytes, stream), copied_memory, "cuMemcpyDtoDAsync")                               \
  MSDA_TWINS(X, cuMemcpy2D_v2, _ptds, (const void* copy), (copy), copied_rows, "cuMemcpy2D")                           \
  MSDA_TWINS(X, cuMemcpy2DAsync_v2, _ptsz, (const void* copy, cuda::Stream stream), (copy, stream), copied_rows,       \
    "cuMemcpy2DAsync")                                                                                                 \
  MSDA_TWINS(X, cuMemcpy3D_v2, _ptds, (const void* copy), (copy), copied_box, "cuMemcpy3D")                            \
  MSDA_TWINS(X, cuMemcpy3DAsync_v2, _ptsz, (const void* copy, cuda::Stream stream), (copy, stream), copied_box,        \
    "cuMemcpy3DAsync")                                                                                                 \
  MSDA_TWINS(X, cuMemcpyPeerAsync, _ptsz, (cuda::DevicePointer to, cuda::Context of_to, cuda::DevicePointer from,      \
    cuda::Context of_from, size_t bytes, cuda::Stream stream), (to, of_to, from, of_from, bytes, stream),              \
    copied_to_peer, "cuMemcpyPeerAsync")                                                                               \
  MSDA_TWINS(X, cuMemsetD8_v2, _ptds, (cuda::DevicePointer to, unsigned char value, size_t count), (to, value,         \
    count), set_memory, "cuMemsetD8")                                                                                  \
  MSDA_TWINS(X, cuMemsetD8Async, _ptsz, (cuda::DevicePointer to, unsigned char value, size_t count, cuda::Stream       \
    stream), (to, value, count, stream), set_memory, "cuMemsetD8Async")                                                \
  MSDA_TWINS(X, cuMemsetD2D8Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned char value, size_t width,    \
    size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), set_rows,                          \
    "cuMemsetD2D8Async")                                                                                               \
  MSDA_TWINS(X, cuMemsetD16_v2, _ptds, (cuda::DevicePointer to, unsigned short value, size_t count), (to, value,       \
    count), set_memory, "cuMemsetD16")                                                                                 \
  MSDA_TWINS(X, cuMemsetD16Async, _ptsz, (cuda::DevicePointer to, unsigned short value, size_t count, cuda::Stream     \
    stream), (to, value, count, stream), set_memory, "cuMemsetD16Async")                                               \
  MSDA_TWINS(X, cuMemsetD2D16Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned short value, size_t         \
    width, size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), set_rows,                   \
    "cuMemsetD2D16Async")                                                                                              \
  MSDA_TWINS(X, cuMemsetD32_v2, _ptds, (cuda::DevicePointer to, unsigned value, size_t count), (to, value, count),     \
    set_memory, "cuMemsetD32")                                                                                         \
  MSDA_TWINS(X, cuMemsetD32Async, _ptsz, (cuda::DevicePointer to, unsigned value, size_t count, cuda::Stream           \
    stream), (to, value, count, stream), set_memory, "cuMemsetD32Async")                                               \
  MSDA_TWINS(X, cuMemsetD2D32Async, _ptsz, (cuda::DevicePointer to, size_t pitch, unsigned value, size_t width,        \
    size_t height, cuda::Stream stream), (to, pitch, value, width, height, stream), set_rows,                          \
    "cuMemsetD2D32Async")                                                                                              \
  MSDA_TWINS(X, cuMemcpy2DUnaligned_v2, _ptds, (const void* copy), (copy), copied_rows, "cuMemcpy2DUnaligned")         \
  MSDA_TWINS(X, cuMemcpyPeer, _ptds, (cuda::DevicePointer to, cuda::Context of_to, cuda::DevicePointer from,           \
    cuda::Context of_from, size_t bytes), (to, of_to, from, of_from, bytes), copied_to_peer, "cuMemcpyPeer")           \
  MSDA_TWINS(X, cuMemcpy3DPeer, _ptds, (const void* copy), (copy), written_anywhere, "cuMemcpy3DPeer")                 \
  MSDA_TWINS(X, cuMemcpy3DPeerAsync, _ptsz, (const void* copy, cuda::Stream stream), (copy, stream),                   \
    written_anywhere, "cuMemcpy3DPeerAsync")                                                                           \
  MSDA_TWINS(X, cuMemcpyAtoD_v2, _ptds, (cuda::DevicePointer to, const void* from, size_t offset, size_t bytes),       \
    (to, from, offset, bytes), written_anywhere, "cuMemcpyAtoD")                                                       \
  MSDA_TWINS(X, cuMemsetD2D8_v2, _ptds, (cuda::DevicePointer to, size_t pitch, unsigned char value, size_t             \
    width, size_t height), (to, pitch, value, width, height), set_rows, "cuMemsetD2D8")                                \
  MSDA_TWINS(X, cuMemsetD2D16_v2, _ptds, (cuda::DevicePointer to, size_t pitch, unsigned short value, size_t           \
    width, size_t height), (to, pitch, value, width, height), set_rows, "cuMemsetD2D16")                               \
  MSDA_TWINS(X, cuMemsetD2D32_v2, _ptds, (cuda::DevicePointer to, size_t pitch, unsigned value, size_t width,          \
    size_t height), (to, pitch, value, width, height), set_rows, "cuMemsetD2D32")                                      \
  MSDA_TWINS(X, cuStreamWriteValue32_v2, _ptsz, (cuda::Stream stream, cuda::DevicePointer to, unsigned value,          \
    unsigned flags), (stream, to, value, flags), wrote_value, "cuStreamWriteValue32")                                  \
  MSDA_TWINS(X, cuStreamWriteValue64_v2, _ptsz, (cuda::Stream stream, cuda::DevicePointer to, uint64_t value,          \
    unsigned flags), (stream, to, value, flags), wrote_value, "cuStreamWriteValue64")                                  \
  MSDA_TWINS(X, cuStreamBatchMemOp_v2, _ptsz, (cuda::Stream stream, unsigned count, void* operations, unsigned         \
    flags), (stream, count, operations, flags), written_anywhere, "cuStreamBatchMemOp")                                \
  MSDA_TWINS(X, cuLaunchHostFunc, _ptsz, (cuda::Stream stream, void (*function)(void*), void* data), (stream,          \
    function, data), undisturbed, "cuLaunchHostFunc")                                                                  \
  MSDA_TWINS(X, cuStreamAddCallback, _ptsz, (cuda::Stream stream, void (*function)(cuda::Stream, cuda::Result,         \
    void*), void* data, unsigned flags), (stream, function, data, flags), undisturbed, "cuStreamAddCallback")          \
  MSDA_TWINS(X, cuStreamWaitEvent, _ptsz, (cuda::Stream stream, cuda::Event event, unsigned flags), (stream, event,    \
    flags), waited_for_event, "cuStreamWaitEvent")                                                                          \
  MSDA_TWINS(X, cuStreamWaitValue32_v2, _ptsz, (cuda::Stream stream, cuda::DevicePointer at, unsigned value,           \
    unsigned flags), (stream, at, value, flags), undisturbed, "cuStreamWaitValue32")                                   \
  MSDA_TWINS(X, cuStreamWaitValue64_v2, _ptsz, (cuda::Stream stream, cuda::DevicePointer at, uint64_t value,           \
    unsigned flags), (stream, at, value, flags), undisturbed, "cuStreamWaitValue64")                                   \
  MSDA_TWINS(X, cuWaitExternalSemaphoresAsync, _ptsz, (const void* semaphores, const void* parameters, unsigned        \
    count, cuda::Stream stream), (semaphores, parameters, count, stream), undisturbed,                                 \
    "cuWaitExternalSemaphoresAsync")                                                                                   \
  MSDA_TWINS(X, cuStreamQuery, _ptsz, (cuda::Stream stream), (stream), queried, "cuStreamQuery")                       \
  X(cuEventQuery, cuda::Result, (cuda::Event event), (event), queried, "cuEventQuery", 13000, false)                   \
  X(cuIpcGetMemHandle, cuda::Result, (void* handle, cuda::DevicePointer memory), (handle, memory),                     \
    exported_memory, "cuIpcGetMemHandle", 13000, false)                                                                \
  X(cuIpcOpenMemHandle_v2, cuda::Result, (cuda::DevicePointer* pointer, cuda::IpcHandle handle, unsigned flags),       \
    (pointer, handle, flags), imported_memory, "cuIpcOpenMemHandle", 13000, false)                                     \
  X(cuIpcCloseMemHandle, cuda::Result, (cuda::DevicePointer pointer), (pointer), freed_memory,                         \
    "cuIpcCloseMemHandle", 13000, false)                                                                               \
  X(cuMemPoolExportPointer, cuda::Result, (void* data, cuda::DevicePointer memory), (data, memory),                    \
    exported_memory, "cuMemPoolExportPointer", 13000, false)                                                           \
  X(cuMemPoolImportPointer, cuda::Result, (cuda::DevicePointer* pointer, cuda::Pool pool, void* data),                 \
    (pointer, pool, data), imported_memory, "cuMemPoolImportPointer", 13000, false)                                    \
  X(cuMemExportToShareableHandle, cuda::Result, (void* to, uint64_t handle, int type, uint64_t flags),                 \
    (to, handle, type, flags), exported_handle, "cuMemExportToShareableHandle", 13000, false)                          \
  X(cuMemImportFromShareableHandle, cuda::Result, (uint64_t* handle, void* from, int type), (handle, from, type),      \
    imported_handle, "cuMemImportFromShareableHandle", 13000, false)                                                   \
  X(cuMemGetHandleForAddressRange, cuda::Result, (void* handle, cuda::DevicePointer memory, size_t bytes, int          \
    type, uint64_t flags), (handle, memory, bytes, type, flags), exported_memory,                                      \
    "cuMemGetHandleForAddressRange", 13000, false)                                                                     \
  X(cuMemcpyBatchAsync, cuda::Result, (cuda::DevicePointer* to, cuda::DevicePointer* from, size_t* bytes, size_t       \
    count, void* attributes, size_t* of_copies, size_t kinds, size_t* failed, cuda::Stream stream), (to, from,         \
    bytes, count, attributes, of_copies, kinds, failed, stream), written_anywhere, "cuMemcpyBatchAsync", 12090,        \
    false)                                                                                                             \
  X(cuMemcpyBatchAsync_ptsz, cuda::Result, (cuda::DevicePointer* to, cuda::DevicePointer* from, size_t* bytes,         \
    size_t count, void* attributes, size_t* of_copies, size_t kinds, size_t* failed, cuda::Stream stream), (to,        \
    from, bytes, count, attributes, of_copies, kinds, failed, stream), written_anywhere, "cuMemcpyBatchAsync",         \
    12090, true)                                                                                                       \
  X(cuMemcpyBatchAsync_v2, cuda::Result, (cuda::DevicePointer* to, cuda::DevicePointer* from, size_t* bytes,           \
    size_t count, void* attributes, size_t* of_copies, size_t kinds, cuda::Stream stream), (to, from, bytes,           \
    count, attributes, of_copies, kinds, stream), written_anywhere, "cuMemcpyBatchAsync", 13000, false)                \
  X(cuMemcpyBatchAsync_v2_ptsz, cuda::Result, (cuda::DevicePointer* to, cuda::DevicePointer* from, size_t*             \
    bytes, size_t count, void* attributes, size_t* of_copies, size_t kinds, cuda::Stream stream), (to, from,           \
    bytes, count, attributes, of_copies, kinds, stream), written_anywhere, "cuMemcpyBatchAsync", 13000, true)          \
  X(cuMemcpy3DBatchAsync, cuda::Result, (size_t count, void* copies, size_t* failed, uint64_t flags,                   \
    cuda::Stream stream), (count, copies, failed, flags, stream), written_anywhere, "cuMemcpy3DBatchAsync",            \
    12090, false)                                                                                                      \
  X(cuMemcpy3DBatchAsync_ptsz, cuda::Result, (size_t count, void* copies, size_t* failed, uint64_t flags,              \
    cuda::Stream stream), (count, copies, failed, flags, stream), written_anywhere, "cuMemcpy3DBatchAsync",            \
    12090, true)                                                                                                       \
  X(cuMemcpy3DBatchAsync_v2, cuda::Result, (size_t count, void* copies, uint64_t flags, cuda::Stream stream),          \
    (count, copies, flags, stream), written_anywhere, "cuMemcpy3DBatchAsync", 13000, false)                            \
  X(cuMemcpy3DBatchAsync_v2_ptsz, cuda::Result, (size_t count, void* copies, uint64_t flags, cuda::Stream              \
    stream), (count, copies, flags, stream), written_anywhere, "cuMemcpy3DBatchAsync", 13000, true)
// clang-format on
