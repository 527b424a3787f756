// Catches kernel launches in the driver's own API, whichever way the program found it: by linking to libcuda, by dlsym,
// or by cuGetProcAddress, which every CUDA runtime uses.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <span>

#include "recorder/preload/driver_api.h"
#include "recorder/preload/interpose.h"
#include "recorder/preload/launch.h"

#define MSDA_EXPORT __attribute__((visibility("default")))

extern "C" {
MSDA_EXPORT msda::record::cuda::LaunchKernel cuLaunchKernel, cuLaunchKernel_ptsz;
MSDA_EXPORT msda::record::cuda::LaunchKernelEx cuLaunchKernelEx, cuLaunchKernelEx_ptsz;
MSDA_EXPORT msda::record::cuda::WaitForContext cuCtxSynchronize;
MSDA_EXPORT msda::record::cuda::WaitForStream cuStreamSynchronize, cuStreamSynchronize_ptsz;
MSDA_EXPORT msda::record::cuda::WaitForEvent cuEventSynchronize;
MSDA_EXPORT msda::record::cuda::GetProcAddress cuGetProcAddress;
MSDA_EXPORT msda::record::cuda::GetProcAddressV2 cuGetProcAddress_v2;
}

namespace msda::record {
namespace {

using cuda::Result;

// A function of the driver that the recorder stands in for.
struct Hook {
  const char* name;
  const char* asked_for;  // of cuGetProcAddress, which gives the twin for per-thread default streams by a flag
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
  kWaitForStream,
  kWaitForStreamPtsz,
  kWaitForEvent,
  kGetProcAddress,
  kGetProcAddressV2,
  kHooks
};
template <class Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}
Hook hooks[kHooks] = {{"cuLaunchKernel", "cuLaunchKernel", false, pointer_to(&cuLaunchKernel)},
                      {"cuLaunchKernel_ptsz", "cuLaunchKernel", true, pointer_to(&cuLaunchKernel_ptsz)},
                      {"cuLaunchKernelEx", "cuLaunchKernelEx", false, pointer_to(&cuLaunchKernelEx)},
                      {"cuLaunchKernelEx_ptsz", "cuLaunchKernelEx", true, pointer_to(&cuLaunchKernelEx_ptsz)},
                      {"cuCtxSynchronize", "cuCtxSynchronize", false, pointer_to(&cuCtxSynchronize)},
                      {"cuStreamSynchronize", "cuStreamSynchronize", false, pointer_to(&cuStreamSynchronize)},
                      {"cuStreamSynchronize_ptsz", "cuStreamSynchronize", true, pointer_to(&cuStreamSynchronize_ptsz)},
                      {"cuEventSynchronize", "cuEventSynchronize", false, pointer_to(&cuEventSynchronize)},
                      {"cuGetProcAddress", "", false, pointer_to(&cuGetProcAddress)},
                      {"cuGetProcAddress_v2", "", false, pointer_to(&cuGetProcAddress_v2)}};

// Where a program found a real function; afterwards ours may be given out in its place.
void* stand_in(HookId id, void* found) {
  Hook& hook = hooks[id];
  if (found == hook.ours) return found;
  hook.real.store(found, std::memory_order_release);
  return hook.ours;
}

template <class Function>
Function* real(HookId id) {
  Hook& hook = hooks[id];
  void* found = hook.real.load(std::memory_order_acquire);
  if (found == nullptr) {  // the program is linked to libcuda: ours came first, the real one is next
    found = next_definition(hook.name);
    hook.real.store(found, std::memory_order_release);
  }
  return reinterpret_cast<Function*>(found);
}

constexpr Result kNotInitialized = 3;

void answer(const char* symbol, void** function, uint64_t flags) {
  if (symbol == nullptr || function == nullptr || *function == nullptr || std::strncmp(symbol, "cu", 2) != 0) return;
  const bool per_thread = (flags & cuda::kPerThreadDefaultStream) != 0;
  for (int id = 0; id < kGetProcAddress; ++id) {
    if (std::strcmp(symbol, hooks[id].asked_for) != 0) continue;
    // Of a function without such a twin there is but one.
    const bool has_twin = std::strcmp(hooks[id + 1].asked_for, symbol) == 0;
    if (per_thread && has_twin) ++id;
    *function = stand_in(static_cast<HookId>(id), *function);
    return;
  }
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
  if (passes_by(function)) return real_launch();
  if (stream == nullptr && hooks[id].per_thread) stream = cuda::kStreamPerThread;
  const Launched launched{
      function,  {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, stream, parameters, extra,
      attributes};
  Snapshot snapshot;
  before_launch(launched, snapshot);
  const Result result = real_launch();
  after_launch(launched, snapshot, result);
  return result;
}

template <class Wait, class... Arguments>
Result waited(HookId id, Arguments... arguments) {
  auto* next = real<Wait>(id);
  if (next == nullptr) return kNotInitialized;
  const Result result = next(arguments...);
  program_waited();
  return result;
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
cuda::Result cuStreamSynchronize(cuda::Stream stream) { return waited<cuda::WaitForStream>(kWaitForStream, stream); }
cuda::Result cuStreamSynchronize_ptsz(cuda::Stream stream) {
  return waited<cuda::WaitForStream>(kWaitForStreamPtsz, stream);
}
cuda::Result cuEventSynchronize(cuda::Event event) { return waited<cuda::WaitForEvent>(kWaitForEvent, event); }

cuda::Result cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  auto* next = real<cuda::GetProcAddress>(kGetProcAddress);
  if (next == nullptr) return kNotInitialized;
  const cuda::Result result = next(symbol, function, version, flags);
  if (result == cuda::kSuccess) answer(symbol, function, flags);
  return result;
}
cuda::Result cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* status) {
  auto* next = real<cuda::GetProcAddressV2>(kGetProcAddressV2);
  if (next == nullptr) return kNotInitialized;
  const cuda::Result result = next(symbol, function, version, flags, status);
  if (result == cuda::kSuccess) answer(symbol, function, flags);
  return result;
}
}
