// Records calls of our own C ABI: the preload's functions of these names record the call and call the real ones, which
// programs find by linking to libmsda, or by dlsym, as ctypes does.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <string>

#include "kernels/msda.h"
#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/hooks/table.h"
#include "recorder/preload/launch/abi_call.h"
#include "recorder/preload/session/warn.h"

// clang-format off
#define MSDA_ID(name, ...) k_##name,
#define MSDA_ENTRY(name, ...) {#name, reinterpret_cast<void*>(&name)},
#define MSDA_WRAPPER(name, result, parameters, arguments, handler) \
  MSDA_API result name parameters { return handler(Hook<decltype(name)>{k_##name}) arguments; }
// clang-format on

namespace msda::record {
namespace {

struct Interposed {
  const char* name;
  void* ours;
  std::atomic<void*> real{nullptr};
};
enum HookId { MSDA_ABI_HOOKS(MSDA_ID) kHooks };
Interposed hooks[kHooks] = {MSDA_ABI_HOOKS(MSDA_ENTRY)};

// Returns libmsda's function, even if only a plug-in linked to libmsda brought it into the process; null if only the
// preload defines it.
void* real(HookId id) {
  Interposed& hook = hooks[id];
  void* found = hook.real.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  found = next_definition(hook.name);
  if (found == nullptr) found = definition_in("libmsda.so.0", hook.name);
  hook.real.store(found, std::memory_order_release);
  return found;
}

template <class Function>
struct Hook {
  HookId id;
};

// The recorder calls on by the first copy, so calls of a second copy could not be distinguished from the first one's.
void report_second_copy(const char* name, void* found) noexcept {
  static constinit std::atomic<bool> is_reported{false};
  if (is_reported.exchange(true)) return;
  try {
    Dl_info where{};
    const char* path = dladdr(found, &where) != 0 && where.dli_fname != nullptr ? where.dli_fname : "another library";
    warn(std::string("a second ") + name + ", of " + path +
         ", is in this process; its calls are not recorded: load one libmsda only (LD_LIBRARY_PATH, ldd)");
  } catch (...) {  // no memory
  }
}

// The handlers, by the table's names.

template <auto record, class Function>
auto records_call(Hook<Function> hook) {
  return [hook](auto... arguments) {
    auto* next = reinterpret_cast<Function*>(real(hook.id));
    return next != nullptr ? record(next, arguments...) : MSDA_INTERNAL_ERROR;
  };
}
template <class Function>
auto records_cpu_call(Hook<Function> hook) {
  return records_call<record_cpu_call>(hook);
}
template <class Function>
auto records_gpu_call(Hook<Function> hook) {
  return records_call<record_gpu_call>(hook);
}

}  // namespace

void* substitute_abi(const char* name, void* found) noexcept {
  for (Interposed& hook : hooks) {
    if (std::strcmp(name, hook.name) != 0) continue;
    if (found == hook.ours) return nullptr;
    if (is_first_copy(hook.real, found)) return hook.ours;
    report_second_copy(name, found);
    return nullptr;
  }
  return nullptr;
}

}  // namespace msda::record

using namespace msda::record;

extern "C" {
MSDA_ABI_HOOKS(MSDA_WRAPPER)
}
