// Intercepts kernel launches, and the loading of their code, in the driver API, whichever way the program found its
// functions: by linking to libcuda, by dlsym, or by cuGetProcAddress, which every CUDA runtime uses.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/events.h"
#include "recorder/preload/driver/gatherer.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/hooks/cupti_hook.h"
#include "recorder/preload/hooks/foreign_handlers.h"
#include "recorder/preload/hooks/graph_handlers.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/hooks/memory_handlers.h"
#include "recorder/preload/hooks/table.h"
#include "recorder/preload/hooks/watching.h"
#include "recorder/preload/launch/autotuner_launches.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/asked_adapters.h"
#include "recorder/preload/session/observations.h"
#include "recorder/preload/session/recording.h"

// clang-format off
#define MSDA_DECLARE(name, result, parameters, ...) __attribute__((visibility("default"))) result name parameters;
#define MSDA_ID(name, ...) k_##name,
#define MSDA_ENTRY(name, result, parameters, arguments, handler, asked_for, version, per_thread) \
  {#name, asked_for, version, per_thread, reinterpret_cast<void*>(&name)},
// clang-format on

namespace cuda = msda::record::cuda;
extern "C" {
MSDA_DRIVER_HOOKS(MSDA_DECLARE)
}

namespace msda::record {
namespace {

using cuda::Result;

// A function of the driver that the recorder replaces.
struct Interposed {
  const char* name;
  const char*
      asked_for;  // the name for cuGetProcAddress, which selects the twin for per-thread default streams by a flag,
  int version;    // and one of several signatures by CUDA's version; this is the version with this one
  bool per_thread;
  void* ours;
  std::atomic<void*> real{nullptr};
};
enum HookId { MSDA_DRIVER_HOOKS(MSDA_ID) kHooks };
Interposed hooks[kHooks] = {MSDA_DRIVER_HOOKS(MSDA_ENTRY)};

// Returns whether the recorder does anything in this function of this process.
bool is_needed(int id) {
#define MSDA_ID_OF(name) MSDA_ID_OF_(name)
#define MSDA_ID_OF_(name) k_##name
  const bool watches = id >= MSDA_ID_OF(MSDA_FIRST_WATCHING_HOOK) && id <= MSDA_ID_OF(MSDA_LAST_WATCHING_HOOK);
  return !watches || config().watches_all();
}

// Sets the real function of a hook.
void note(Interposed& hook, void* found) {
  static constinit std::atomic<bool> observed{false};
  if (found != nullptr && !observed.exchange(true)) observe("driver", hook.name);
  hook.real.store(found, std::memory_order_release);
}

// Notes the real function that a program found; afterwards ours may be returned in its place.
void* stand_in(HookId id, void* found) {
  Interposed& hook = hooks[id];
  if (found == hook.ours) return found;
  note(hook, found);
  return hook.ours;
}

void* real(HookId id) {
  Interposed& hook = hooks[id];
  void* found = hook.real.load(std::memory_order_acquire);
  if (found == nullptr) {
    // The caller is linked to libcuda and found ours first. The real function is the next definition, or, if only a
    // plug-in (Triton's launcher) brought libcuda into the process, the one in libcuda.
    found = next_definition(hook.name);
    if (found == nullptr) found = definition_in("libcuda.so.1", hook.name);
    note(hook, found);
  }
  return found;
}

// The hook as a wrapper's handler sees it.
template <class Function>
struct Hook {
  HookId id;

  bool per_thread() const { return hooks[id].per_thread; }
  template <class... Arguments>
  Result operator()(Arguments... arguments) const {
    auto* next = reinterpret_cast<Function*>(real(id));
    return next != nullptr ? next(arguments...) : cuda::kNotInitialized;
  }
};

// Replaces what a program gets for a symbol. `ask(version)` returns what the driver gives for that version, or null.
template <class Ask>
void answer(const char* symbol, void** function, int version, uint64_t flags, Ask&& ask) {
  if (symbol == nullptr || function == nullptr || *function == nullptr || std::strncmp(symbol, "cu", 2) != 0) return;
  const bool per_thread = (flags & cuda::kPerThreadDefaultStream) != 0;
  for (int id = 0; id < k_cuGetProcAddress; ++id) {
    if (!is_needed(id) || std::strcmp(symbol, hooks[id].asked_for) != 0 ||
        ask(std::min(version, hooks[id].version)) != *function) {
      continue;
    }
    // A function without such a twin exists once.
    const bool has_twin = hooks[id + 1].per_thread && std::strcmp(hooks[id + 1].asked_for, symbol) == 0;
    if (per_thread && has_twin) ++id;
    *function = stand_in(static_cast<HookId>(id), *function);
    return;
  }
  // A signature of a later CUDA is none of those above, and is not replaced.
  if (std::strcmp(symbol, "cuGetProcAddress") == 0) {
    // From CUDA 12 on this name means the function with five parameters; which of the two was found decides.
    void* second = hooks[k_cuGetProcAddress_v2].real.load();
    if (*function == second || second == nullptr) *function = stand_in(k_cuGetProcAddress_v2, *function);
  } else if (std::strcmp(symbol, "cuGetProcAddress_v2") == 0) {
    *function = stand_in(k_cuGetProcAddress_v2, *function);
  }
}

// Returns whether a device's primary context lives on after a release or reset, because others retain it. A destroyed
// context does not.
bool still_active(int device) {
  const auto state = cuda::driver().primary_context_state;
  unsigned flags = 0;
  int active = 0;
  return state != nullptr && state(device, &flags, &active) == cuda::kSuccess && active != 0;
}
bool still_active(cuda::Context) { return false; }

// Returns the context that is going to end; null if it is not known.
cuda::Context context_of(cuda::Context context) { return context; }
cuda::Context context_of(int device) {
  const cuda::Driver& driver = cuda::driver();
  cuda::Context context = nullptr;
  if (driver.retain_primary_context == nullptr || driver.release_primary_context == nullptr || !still_active(device) ||
      driver.retain_primary_context(&context, device) != cuda::kSuccess) {
    return nullptr;
  }
  const Inside guard;
  driver.release_primary_context(device);
  return context;
}

// Forgets what the recorder kept on the device and what it pinned, which is lost with the context.
void device_state_is_lost(cuda::Context context) {
  Digester::instance().context_ends(context);
  Gatherer::instance().context_ends();
  if (Survey::is_wanted()) Survey::instance().context_ends(context);
  if (Trail::is_wanted()) Trail::instance().context_ends(context);
  recording().device_is_reset();
}

// Marks the program's launch as seen, so that CUPTI need not report it.
template <class RealLaunch>
Result launch_seen(RealLaunch&& real_launch) {
  launch_is_seen = true;
  const Result result = real_launch();
  launch_is_seen = false;
  return result;
}

template <class RealLaunch>
Result launch_surveyed(const Launched& launched, RealLaunch&& real_launch) {
  Survey::Ticket ticket;
  Survey::instance().before_launch(launched, ticket);
  const Result result = launch_seen(real_launch);
  Survey::instance().after_launch(launched, ticket, result);
  return result;
}

template <class RealLaunch>
Result launch_trailed(const Launched& launched, RealLaunch&& real_launch) {
  Trail::Ticket ticket;
  Trail::instance().before_launch(launched, ticket);
  const Result result = launch_seen(real_launch);
  Trail::instance().after_launch(ticket, result);
  return result;
}

template <class RealLaunch>
Result launch(Launched launched, bool per_thread, RealLaunch&& real_launch) {
  if ((!watches_all() && passes_by(launched.function)) || cupti_takes_launches()) return real_launch();
  if (launched.stream == nullptr && per_thread) launched.stream = cuda::kStreamPerThread;
  if (surveys()) return launch_surveyed(launched, real_launch);
  if (trails()) return launch_trailed(launched, real_launch);
  Snapshot snapshot;
  before_launch(launched, snapshot);
  const Result result = launch_seen(real_launch);
  after_launch(launched, snapshot, result);
  return result;
}

// The handlers, by the table's names: each returns a wrapper's body.

template <class Function>
auto launched_plainly(Hook<Function> hook) {
  return [hook](cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared_bytes, cuda::Stream stream, void** parameters, void** extra) {
    const Launched launched{function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, parameters, extra};
    return launch(launched, hook.per_thread(),
                  [&] { return hook(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra); });
  };
}

template <class Function>
auto launched_cooperatively(Hook<Function> hook) {
  return [hook](cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared_bytes, cuda::Stream stream, void** parameters) {
    const Launched launched{function, {gx, gy, gz}, {bx, by, bz}, shared_bytes,
                            stream,   parameters,   nullptr,      {&cuda::kCooperativeLaunch, 1}};
    return launch(launched, hook.per_thread(),
                  [&] { return hook(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters); });
  };
}

template <class Function>
auto launched_by_config(Hook<Function> hook) {
  return [hook](const cuda::LaunchConfig* config, cuda::Function function, void** parameters, void** extra) {
    const auto real_launch = [&] { return hook(config, function, parameters, extra); };
    if (config == nullptr) return real_launch();
    const auto &grid = config->grid, &block = config->block;
    const Launched launched{function,
                            {grid[0], grid[1], grid[2]},
                            {block[0], block[1], block[2]},
                            config->shared_bytes,
                            config->stream,
                            parameters,
                            extra,
                            {config->attributes, config->attributes != nullptr ? config->attribute_count : 0}};
    return launch(launched, hook.per_thread(), real_launch);
  };
}

template <class Function>
auto waited(Hook<Function> hook) {
  return [hook](auto... arguments) {
    program_waits();
    flush_trail();
    const Result result = hook(arguments...);
    if (trails() && result == cuda::kSuccess) Trail::instance().host_waited(stream_of(hook, arguments)...);
    program_waited();
    if (surveys()) Survey::instance().look_at_results();
    return result;
  };
}

// Handles a call by which the program learns whether the device is done.
template <class Function>
auto queried(Hook<Function> hook) {
  return [hook](auto stream_or_event) {
    flush_trail();
    const Result result = hook(stream_or_event);
    if (trails() && result == cuda::kSuccess) Trail::instance().host_waited(stream_of(hook, stream_or_event));
    return result;
  };
}

// Handles cudaDeviceReset, or the end of a context.
template <class Function>
auto ended_context(Hook<Function> hook) {
  return [hook](auto context_or_device) {
    if (inside) return hook(context_or_device);
    const auto no_trial = undisturbed_turn();
    program_waits();
    flush_trail();
    recording().drain();  // launches under way would never finish
    const EndOfStream end;
    context_unloaded();  // first: before it returns, another thread may get a handle that was of this context
    const cuda::Context context = context_of(context_or_device);
    const Result result = hook(context_or_device);
    // In a forked child the driver does nothing, and another thread of the parent may have held the recorder's locks.
    const bool has_driver = result != cuda::kNotInitialized && result != cuda::kDeinitialized;
    if (has_driver && !still_active(context_or_device)) device_state_is_lost(context);
    return result;
  };
}

template <class Function>
auto destroyed_stream(Hook<Function> hook) {
  return [hook](cuda::Stream stream) {
    const EndOfStream end;
    const auto no_trial = undisturbed_turn();
    flush_trail();
    // Done first: afterwards the handle may be reused.
    if (surveys()) Survey::instance().memory().stream_destroyed(stream);
    return hook(stream);
  };
}

template <class Function>
auto created_event(Hook<Function> hook) {
  return [hook](cuda::Event* event, unsigned flags) {
    const Result result = hook(event, flags);
    if (result == cuda::kSuccess) event_created(*event, flags);
    return result;
  };
}

template <class Function>
auto destroyed_event(Hook<Function> hook) {
  return [hook](cuda::Event event) {
    event_destroyed(event);  // first: afterwards the handle may be reused
    return hook(event);
  };
}

template <class Function>
auto recorded_event(Hook<Function> hook) {
  return [hook](cuda::Event event, cuda::Stream stream, auto... flags) {
    if (trails()) Trail::instance().event_recorded(event, stream_of(hook, stream));
    const Result result = hook(event, stream, flags...);
    if (keeps_time(event)) program_took_time();
    return result;
  };
}

template <class Function>
auto loaded_code(Hook<Function> hook, Owner::Kind kind) {
  return [hook, kind](auto* handle, const void* image, auto... rest) {
    Loading loading;
    const Result result = hook(handle, image, rest...);
    if (result == cuda::kSuccess) {
      loading.done({kind, reinterpret_cast<uintptr_t>(*handle)}, image, keeps_code_of);
    }
    return result;
  };
}
template <class Function>
auto loaded_module(Hook<Function> hook) {
  return loaded_code(hook, Owner::kModule);
}
template <class Function>
auto loaded_library(Hook<Function> hook) {
  return loaded_code(hook, Owner::kLibrary);
}

template <class Function>
auto unloaded_code(Hook<Function> hook, Owner::Kind kind) {
  return [hook, kind](auto handle) {
    const auto no_trial = undisturbed_turn();
    unloaded({kind, reinterpret_cast<uintptr_t>(handle)});  // first: afterwards the handle may be reused
    return hook(handle);
  };
}
template <class Function>
auto unloaded_module(Hook<Function> hook) {
  return unloaded_code(hook, Owner::kModule);
}
template <class Function>
auto unloaded_library(Hook<Function> hook) {
  return unloaded_code(hook, Owner::kLibrary);
}

template <class Function>
auto asked_for_function(Hook<Function> hook) {
  return [hook](const char* symbol, void** function, int version, uint64_t flags, auto... status) {
    const Result result = hook(symbol, function, version, flags, status...);
    const auto ask = [&](int of_version) {
      void* found = nullptr;
      [[maybe_unused]] int unused = 0;
      const Result asked = [&] {
        if constexpr (sizeof...(status) > 0) return hook(symbol, &found, of_version, flags, &unused);
        return hook(symbol, &found, of_version, flags, status...);
      }();
      return asked == cuda::kSuccess ? found : nullptr;
    };
    if (result == cuda::kSuccess) answer(symbol, function, version, flags, ask);
    return result;
  };
}

}  // namespace

void* substitute_driver(const char* name, void* found) noexcept {
  for (int id = 0; id < kHooks; ++id) {
    if (is_needed(id) && std::strcmp(name, hooks[id].name) == 0) return stand_in(static_cast<HookId>(id), found);
  }
  return nullptr;
}

}  // namespace msda::record

using namespace msda::record;

#define MSDA_WRAPPER(name, result, parameters, arguments, handler, ...) \
  result name parameters { return handler(Hook<decltype(name)>{k_##name}) arguments; }
extern "C" {
MSDA_DRIVER_HOOKS(MSDA_WRAPPER)
}
