// Catches kernel launches in the driver's own API, whichever way the program found it: by linking to libcuda, by dlsym,
// or by cuGetProcAddress, which every CUDA runtime uses.
#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "recorder/preload/driver_api.h"
#include "recorder/preload/interpose.h"
#include "recorder/preload/launch.h"

#define MSDA_EXPORT __attribute__((visibility("default")))

extern "C" {
MSDA_EXPORT msda::record::cuda::LaunchKernel cuLaunchKernel, cuLaunchKernel_ptsz;
MSDA_EXPORT msda::record::cuda::LaunchKernelEx cuLaunchKernelEx, cuLaunchKernelEx_ptsz;
MSDA_EXPORT msda::record::cuda::GetProcAddress cuGetProcAddress;
MSDA_EXPORT msda::record::cuda::GetProcAddressV2 cuGetProcAddress_v2;
}

namespace msda::record {
namespace {

using cuda::Result;

// A function of the driver that the recorder stands in for.
struct Hook {
  const char* name;
  void* ours;
  std::atomic<void*> real{nullptr};
};
enum HookId { kLaunch, kLaunchPtsz, kLaunchEx, kLaunchExPtsz, kGetProcAddress, kGetProcAddressV2, kHooks };
Hook hooks[kHooks] = {{"cuLaunchKernel", reinterpret_cast<void*>(&cuLaunchKernel)},
                      {"cuLaunchKernel_ptsz", reinterpret_cast<void*>(&cuLaunchKernel_ptsz)},
                      {"cuLaunchKernelEx", reinterpret_cast<void*>(&cuLaunchKernelEx)},
                      {"cuLaunchKernelEx_ptsz", reinterpret_cast<void*>(&cuLaunchKernelEx_ptsz)},
                      {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress)},
                      {"cuGetProcAddress_v2", reinterpret_cast<void*>(&cuGetProcAddress_v2)}};

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
  if (std::strcmp(symbol, "cuLaunchKernel") == 0) {
    *function = stand_in(per_thread ? kLaunchPtsz : kLaunch, *function);
  } else if (std::strcmp(symbol, "cuLaunchKernelEx") == 0) {
    *function = stand_in(per_thread ? kLaunchExPtsz : kLaunchEx, *function);
  } else if (std::strcmp(symbol, "cuGetProcAddress") == 0) {
    // From CUDA 12 on this name means the one with five parameters; which of the two was found decides.
    void* second = hooks[kGetProcAddressV2].real.load();
    if (*function == second || second == nullptr) *function = stand_in(kGetProcAddressV2, *function);
  } else if (std::strcmp(symbol, "cuGetProcAddress_v2") == 0) {
    *function = stand_in(kGetProcAddressV2, *function);
  }
}

template <class RealLaunch>
Result launch(HookId id, cuda::Function function, const unsigned* grid, const unsigned* block, unsigned shared_bytes,
              cuda::Stream stream, void** parameters, void** extra, RealLaunch&& real_launch) {
  if (hooks[id].real.load(std::memory_order_acquire) == nullptr) return kNotInitialized;
  if (passes_by(function)) return real_launch();
  const Launched launched{
      function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, stream, parameters, extra};
  Snapshot snapshot;
  before_launch(launched, snapshot);
  const Result result = real_launch();
  after_launch(launched, snapshot, result);
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
  return launch(id, function, grid, block, shared_bytes, stream, parameters, extra, [&] {
    return next(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, stream, parameters,
                extra);
  });
}

static cuda::Result launch_ex(HookId id, const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                              void** extra) {
  auto* next = real<cuda::LaunchKernelEx>(id);
  if (config == nullptr) return next != nullptr ? next(config, function, parameters, extra) : kNotInitialized;
  return launch(id, function, config->grid, config->block, config->shared_bytes, config->stream, parameters, extra,
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
