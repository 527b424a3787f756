// Shared by the files of the stand-in driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/stand_in_driver/driver_api.h"

namespace msda::stand_in {

// First in every call: is the driver initialized, has this thread a context, has no kernel failed yet?
CUresult enter();

// The calling thread's context.
CUcontext context_of_thread();

CUdevice device_of(CUcontext context);

// A context ends, and with it the modules that were loaded into it, its memory and its streams; libraries belong to
// none.
void end_modules_of(CUcontext context);
void end_memory_of(CUcontext context);
void end_streams_of(CUcontext context);

// A kernel failed. As on a GPU, the context is lost: every later call returns this error.
void fail(CUresult error);

// Is [pointer, pointer + bytes) allocated, in one piece or in several without a gap? True if `bytes` is 0.
bool allocated(CUdeviceptr pointer, size_t bytes);

// The same of so many elements.
template <class T>
bool reachable(const T* pointer, int64_t count) {
  return allocated(reinterpret_cast<uintptr_t>(pointer), static_cast<uint64_t>(count) * sizeof(T));
}

// Memory of the device that code has brought along: filled with zeros, never freed, and no allocation of the program's.
CUdeviceptr allocate_variable(size_t bytes);

// The compute capability: 90, or what MSDA_STAND_IN_ARCHITECTURE says.
int architecture();

using Work = std::function<CUresult()>;

// Gives work to a stream: it runs after all that the stream has, at once or, with MSDA_STAND_IN_ASYNC=1, on the
// stream's thread. `null_is_per_thread`: what the stream 0 means, for the _ptsz twins. A capturing stream drops the
// work.
CUresult submit(CUstream stream, Work work, bool null_is_per_thread = false);

// The same on the legacy stream, and waits for it.
CUresult submit_and_wait(Work work);

// Waits until every stream of the context is idle.
void wait_for_all(CUcontext context);

// For calls that CUDA forbids while a stream captures (allocating, waiting): invalidates the capture and returns an
// error if one is under way that this thread must heed.
CUresult forbidden_in_capture();

}  // namespace msda::stand_in
