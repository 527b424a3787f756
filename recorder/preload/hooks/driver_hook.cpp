// Catches kernel launches, and the code that is loaded for them, in the driver's own API, whichever way the program
// found it: by linking to libcuda, by dlsym, or by cuGetProcAddress, which every CUDA runtime uses.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "recorder/preload/hooks/cupti_hook.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/events.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/launch/trials.h"

#define MSDA_EXPORT __attribute__((visibility("default")))

extern "C" {
MSDA_EXPORT msda::record::cuda::LaunchKernel cuLaunchKernel, cuLaunchKernel_ptsz;
MSDA_EXPORT msda::record::cuda::LaunchKernelEx cuLaunchKernelEx, cuLaunchKernelEx_ptsz;
MSDA_EXPORT msda::record::cuda::WaitForContext cuCtxSynchronize;
MSDA_EXPORT msda::record::cuda::WaitForNamedContext cuCtxSynchronize_v2;
MSDA_EXPORT msda::record::cuda::WaitForStream cuStreamSynchronize, cuStreamSynchronize_ptsz;
MSDA_EXPORT msda::record::cuda::DestroyStream cuStreamDestroy_v2;
MSDA_EXPORT msda::record::cuda::WaitForEvent cuEventSynchronize;
MSDA_EXPORT msda::record::cuda::CreateEvent cuEventCreate;
MSDA_EXPORT msda::record::cuda::DestroyEvent cuEventDestroy_v2;
MSDA_EXPORT msda::record::cuda::RecordEvent cuEventRecord, cuEventRecord_ptsz;
MSDA_EXPORT msda::record::cuda::RecordEventWithFlags cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz;
MSDA_EXPORT msda::record::cuda::ModuleLoadData cuModuleLoadData, cuModuleLoadFatBinary;
MSDA_EXPORT msda::record::cuda::ModuleLoadDataEx cuModuleLoadDataEx;
MSDA_EXPORT msda::record::cuda::ModuleUnload cuModuleUnload;
MSDA_EXPORT msda::record::cuda::LibraryLoadData cuLibraryLoadData;
MSDA_EXPORT msda::record::cuda::LibraryUnload cuLibraryUnload;
MSDA_EXPORT msda::record::cuda::GetProcAddress cuGetProcAddress;
MSDA_EXPORT msda::record::cuda::GetProcAddressV2 cuGetProcAddress_v2;
}

namespace msda::record {
namespace {

using cuda::Result;

// A function of the driver that the recorder stands in for.
struct Interposed {
  const char* name;
  const char* asked_for;  // of cuGetProcAddress, which gives the twin for per-thread default streams by a flag,
  int version;            // and by CUDA's version one of several signatures; this version has this one
  bool per_thread;
  void* ours;
  std::atomic<void*> real{nullptr};
};
enum HookId {
  kLaunch,
  kLaunchPtsz,
  kLaunchEx,
  kLaunchExPtsz,
  kWaitForContext,
  kWaitForNamedContext,
  kWaitForStream,
  kWaitForStreamPtsz,
  kDestroyStream,
  kWaitForEvent,
  kCreateEvent,
  kDestroyEvent,
  kRecordEvent,
  kRecordEventPtsz,
  kRecordEventWithFlags,
  kRecordEventWithFlagsPtsz,
  kModuleLoadData,
  kModuleLoadDataEx,
  kModuleLoadFatBinary,
  kModuleUnload,
  kLibraryLoadData,
  kLibraryUnload,
  kGetProcAddress,
  kGetProcAddressV2,
  kHooks
};
template <class Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}
Interposed hooks[kHooks] = {
    {"cuLaunchKernel", "cuLaunchKernel", 13000, false, pointer_to(&cuLaunchKernel)},
    {"cuLaunchKernel_ptsz", "cuLaunchKernel", 13000, true, pointer_to(&cuLaunchKernel_ptsz)},
    {"cuLaunchKernelEx", "cuLaunchKernelEx", 13000, false, pointer_to(&cuLaunchKernelEx)},
    {"cuLaunchKernelEx_ptsz", "cuLaunchKernelEx", 13000, true, pointer_to(&cuLaunchKernelEx_ptsz)},
    {"cuCtxSynchronize", "cuCtxSynchronize", 12000, false, pointer_to(&cuCtxSynchronize)},
    {"cuCtxSynchronize_v2", "cuCtxSynchronize", 13000, false, pointer_to(&cuCtxSynchronize_v2)},
    {"cuStreamSynchronize", "cuStreamSynchronize", 13000, false, pointer_to(&cuStreamSynchronize)},
    {"cuStreamSynchronize_ptsz", "cuStreamSynchronize", 13000, true, pointer_to(&cuStreamSynchronize_ptsz)},
    {"cuStreamDestroy_v2", "cuStreamDestroy", 13000, false, pointer_to(&cuStreamDestroy_v2)},
    {"cuEventSynchronize", "cuEventSynchronize", 13000, false, pointer_to(&cuEventSynchronize)},
    {"cuEventCreate", "cuEventCreate", 13000, false, pointer_to(&cuEventCreate)},
    {"cuEventDestroy_v2", "cuEventDestroy", 13000, false, pointer_to(&cuEventDestroy_v2)},
    {"cuEventRecord", "cuEventRecord", 13000, false, pointer_to(&cuEventRecord)},
    {"cuEventRecord_ptsz", "cuEventRecord", 13000, true, pointer_to(&cuEventRecord_ptsz)},
    {"cuEventRecordWithFlags", "cuEventRecordWithFlags", 13000, false, pointer_to(&cuEventRecordWithFlags)},
    {"cuEventRecordWithFlags_ptsz", "cuEventRecordWithFlags", 13000, true, pointer_to(&cuEventRecordWithFlags_ptsz)},
    {"cuModuleLoadData", "cuModuleLoadData", 13000, false, pointer_to(&cuModuleLoadData)},
    {"cuModuleLoadDataEx", "cuModuleLoadDataEx", 13000, false, pointer_to(&cuModuleLoadDataEx)},
    {"cuModuleLoadFatBinary", "cuModuleLoadFatBinary", 13000, false, pointer_to(&cuModuleLoadFatBinary)},
    {"cuModuleUnload", "cuModuleUnload", 13000, false, pointer_to(&cuModuleUnload)},
    {"cuLibraryLoadData", "cuLibraryLoadData", 13000, false, pointer_to(&cuLibraryLoadData)},
    {"cuLibraryUnload", "cuLibraryUnload", 13000, false, pointer_to(&cuLibraryUnload)},
    {"cuGetProcAddress", "", 13000, false, pointer_to(&cuGetProcAddress)},
    {"cuGetProcAddress_v2", "", 13000, false, pointer_to(&cuGetProcAddress_v2)}};

// Where a program found a real function; afterwards ours may be given out in its place.
void* stand_in(HookId id, void* found) {
  Interposed& hook = hooks[id];
  if (found == hook.ours) return found;
  hook.real.store(found, std::memory_order_release);
  return hook.ours;
}

template <class Function>
Function* real(HookId id) {
  Interposed& hook = hooks[id];
  void* found = hook.real.load(std::memory_order_acquire);
  if (found == nullptr) {
    // A caller that is linked to libcuda: ours came first. The real one is next, or, where only a plug-in (Triton's
    // launcher) brought libcuda into the process, in libcuda alone.
    found = next_definition(hook.name);
    if (found == nullptr) found = definition_in("libcuda.so.1", hook.name);
    hook.real.store(found, std::memory_order_release);
  }
  return reinterpret_cast<Function*>(found);
}

constexpr Result kNotInitialized = 3;

// What a program was given for a symbol. `ask(version)` is what the driver gives for that version, or null.
template <class Ask>
void answer(const char* symbol, void** function, int version, uint64_t flags, Ask&& ask) {
  if (symbol == nullptr || function == nullptr || *function == nullptr || std::strncmp(symbol, "cu", 2) != 0) return;
  const bool per_thread = (flags & cuda::kPerThreadDefaultStream) != 0;
  for (int id = 0; id < kGetProcAddress; ++id) {
    if (std::strcmp(symbol, hooks[id].asked_for) != 0 || ask(std::min(version, hooks[id].version)) != *function) {
      continue;
    }
    // Of a function without such a twin there is but one.
    const bool has_twin = hooks[id + 1].per_thread && std::strcmp(hooks[id + 1].asked_for, symbol) == 0;
    if (per_thread && has_twin) ++id;
    *function = stand_in(static_cast<HookId>(id), *function);
    return;
  }
  // A signature of a later CUDA is none of those above, and stays as it is.
  if (std::strcmp(symbol, "cuGetProcAddress") == 0) {
    // From CUDA 12 on this name means the one with five parameters; which of the two was found decides.
    void* second = hooks[kGetProcAddressV2].real.load();
    if (*function == second || second == nullptr) *function = stand_in(kGetProcAddressV2, *function);
  } else if (std::strcmp(symbol, "cuGetProcAddress_v2") == 0) {
    *function = stand_in(kGetProcAddressV2, *function);
  }
}

template <class RealLaunch>
Result launch(HookId id, cuda::Function function, const unsigned* grid, const unsigned* block, unsigned shared_bytes,
              cuda::Stream stream, void** parameters, void** extra, std::span<const cuda::LaunchAttribute> attributes,
              RealLaunch&& real_launch) {
  if (hooks[id].real.load(std::memory_order_acquire) == nullptr) return kNotInitialized;
  if (passes_by(function) || cupti_takes_launches()) return real_launch();
  if (stream == nullptr && hooks[id].per_thread) stream = cuda::kStreamPerThread;
  const Launched launched{
      function,  {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, stream, parameters, extra,
      attributes};
  Snapshot snapshot;
  before_launch(launched, snapshot);
  launch_is_seen = true;
  const Result result = real_launch();
  launch_is_seen = false;
  after_launch(launched, snapshot, result);
  return result;
}

template <class Wait, class... Arguments>
Result waited(HookId id, Arguments... arguments) {
  auto* next = real<Wait>(id);
  if (next == nullptr) return kNotInitialized;
  program_waits();
  const Result result = next(arguments...);
  program_waited();
  return result;
}

template <class Record, class... Flags>
Result recorded(HookId id, cuda::Event event, cuda::Stream stream, Flags... flags) {
  auto* next = real<Record>(id);
  if (next == nullptr) return kNotInitialized;
  const Result result = next(event, stream, flags...);
  if (keeps_time(event)) program_took_time();
  return result;
}

template <class Function, class Handle, class... Rest>
Result load(HookId id, Owner::Kind kind, Handle* handle, const void* image, Rest... rest) {
  auto* next = real<Function>(id);
  if (next == nullptr) return kNotInitialized;
  Loading loading;
  const Result result = next(handle, image, rest...);
  if (result == cuda::kSuccess) loading.done({kind, reinterpret_cast<uintptr_t>(*handle)}, image);
  return result;
}

template <class Function, class Handle>
Result unload(HookId id, Owner::Kind kind, Handle handle) {
  auto* next = real<Function>(id);
  if (next == nullptr) return kNotInitialized;
  unloaded({kind, reinterpret_cast<uintptr_t>(handle)});  // first: then the handle may become another's
  return next(handle);
}

}  // namespace

void* substitute_driver(const char* name, void* found) noexcept {
  for (int id = 0; id < kHooks; ++id) {
    if (std::strcmp(name, hooks[id].name) == 0) return stand_in(static_cast<HookId>(id), found);
  }
  return nullptr;
}

}  // namespace msda::record

extern "C" {

using namespace msda::record;

static cuda::Result launch_plain(HookId id, cuda::Function function, const unsigned* grid, const unsigned* block,
                                 unsigned shared_bytes, cuda::Stream stream, void** parameters, void** extra) {
  auto* next = real<cuda::LaunchKernel>(id);
  return launch(id, function, grid, block, shared_bytes, stream, parameters, extra, {}, [&] {
    return next(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, stream, parameters,
                extra);
  });
}

static cuda::Result launch_ex(HookId id, const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                              void** extra) {
  auto* next = real<cuda::LaunchKernelEx>(id);
  if (config == nullptr) return next != nullptr ? next(config, function, parameters, extra) : kNotInitialized;
  return launch(id, function, config->grid, config->block, config->shared_bytes, config->stream, parameters, extra,
                {config->attributes, config->attributes != nullptr ? config->attribute_count : 0},
                [&] { return next(config, function, parameters, extra); });
}

cuda::Result cuLaunchKernel(cuda::Function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared_bytes, cuda::Stream stream, void** parameters, void** extra) {
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch_plain(kLaunch, f, grid, block, shared_bytes, stream, parameters, extra);
}
cuda::Result cuLaunchKernel_ptsz(cuda::Function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared_bytes, cuda::Stream stream, void** parameters,
                                 void** extra) {
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch_plain(kLaunchPtsz, f, grid, block, shared_bytes, stream, parameters, extra);
}
cuda::Result cuLaunchKernelEx(const cuda::LaunchConfig* config, cuda::Function f, void** parameters, void** extra) {
  return launch_ex(kLaunchEx, config, f, parameters, extra);
}
cuda::Result cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, cuda::Function f, void** parameters,
                                   void** extra) {
  return launch_ex(kLaunchExPtsz, config, f, parameters, extra);
}

cuda::Result cuCtxSynchronize() { return waited<cuda::WaitForContext>(kWaitForContext); }
cuda::Result cuCtxSynchronize_v2(cuda::Context context) {
  return waited<cuda::WaitForNamedContext>(kWaitForNamedContext, context);
}
cuda::Result cuStreamSynchronize(cuda::Stream stream) { return waited<cuda::WaitForStream>(kWaitForStream, stream); }
cuda::Result cuStreamSynchronize_ptsz(cuda::Stream stream) {
  return waited<cuda::WaitForStream>(kWaitForStreamPtsz, stream);
}
cuda::Result cuStreamDestroy_v2(cuda::Stream stream) {
  auto* next = real<cuda::DestroyStream>(kDestroyStream);
  if (next == nullptr) return kNotInitialized;
  const EndOfStream end;
  return next(stream);
}
cuda::Result cuEventSynchronize(cuda::Event event) { return waited<cuda::WaitForEvent>(kWaitForEvent, event); }
cuda::Result cuEventCreate(cuda::Event* event, unsigned flags) {
  auto* next = real<cuda::CreateEvent>(kCreateEvent);
  if (next == nullptr) return kNotInitialized;
  const cuda::Result result = next(event, flags);
  if (result == cuda::kSuccess) event_created(*event, flags);
  return result;
}
cuda::Result cuEventDestroy_v2(cuda::Event event) {
  auto* next = real<cuda::DestroyEvent>(kDestroyEvent);
  if (next == nullptr) return kNotInitialized;
  event_destroyed(event);  // first: then the handle may become another's
  return next(event);
}
cuda::Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  return recorded<cuda::RecordEvent>(kRecordEvent, event, stream);
}
cuda::Result cuEventRecord_ptsz(cuda::Event event, cuda::Stream stream) {
  return recorded<cuda::RecordEvent>(kRecordEventPtsz, event, stream);
}
cuda::Result cuEventRecordWithFlags(cuda::Event event, cuda::Stream stream, unsigned flags) {
  return recorded<cuda::RecordEventWithFlags>(kRecordEventWithFlags, event, stream, flags);
}
cuda::Result cuEventRecordWithFlags_ptsz(cuda::Event event, cuda::Stream stream, unsigned flags) {
  return recorded<cuda::RecordEventWithFlags>(kRecordEventWithFlagsPtsz, event, stream, flags);
}

cuda::Result cuModuleLoadData(cuda::Module* module, const void* image) {
  return load<cuda::ModuleLoadData>(kModuleLoadData, Owner::kModule, module, image);
}
cuda::Result cuModuleLoadFatBinary(cuda::Module* module, const void* image) {
  return load<cuda::ModuleLoadData>(kModuleLoadFatBinary, Owner::kModule, module, image);
}
cuda::Result cuModuleLoadDataEx(cuda::Module* module, const void* image, unsigned count, int* options, void** values) {
  return load<cuda::ModuleLoadDataEx>(kModuleLoadDataEx, Owner::kModule, module, image, count, options, values);
}
cuda::Result cuLibraryLoadData(cuda::Library* library, const void* image, int* jit_options, void** jit_values,
                               unsigned jit_count, int* options, void** values, unsigned count) {
  return load<cuda::LibraryLoadData>(kLibraryLoadData, Owner::kLibrary, library, image, jit_options, jit_values,
                                     jit_count, options, values, count);
}
cuda::Result cuModuleUnload(cuda::Module module) {
  return unload<cuda::ModuleUnload>(kModuleUnload, Owner::kModule, module);
}
cuda::Result cuLibraryUnload(cuda::Library library) {
  return unload<cuda::LibraryUnload>(kLibraryUnload, Owner::kLibrary, library);
}

cuda::Result cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  auto* next = real<cuda::GetProcAddress>(kGetProcAddress);
  if (next == nullptr) return kNotInitialized;
  const cuda::Result result = next(symbol, function, version, flags);
  const auto ask = [&](int of_version) {
    void* found = nullptr;
    return next(symbol, &found, of_version, flags) == cuda::kSuccess ? found : nullptr;
  };
  if (result == cuda::kSuccess) answer(symbol, function, version, flags, ask);
  return result;
}
cuda::Result cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* status) {
  auto* next = real<cuda::GetProcAddressV2>(kGetProcAddressV2);
  if (next == nullptr) return kNotInitialized;
  const cuda::Result result = next(symbol, function, version, flags, status);
  const auto ask = [&](int of_version) {
    void* found = nullptr;
    int unused = 0;
    return next(symbol, &found, of_version, flags, &unused) == cuda::kSuccess ? found : nullptr;
  };
  if (result == cuda::kSuccess) answer(symbol, function, version, flags, ask);
  return result;
}
}
