#include "recorder/preload/hooks/cupti_hook.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "recorder/device/cupti_libraries.h"
#include "recorder/preload/driver/cupti_api.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/hooks/table.h"
#include "recorder/preload/hooks/watching.h"
#include "recorder/preload/launch/autotuner_launches.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/asked_adapters.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/observations.h"
#include "recorder/preload/session/warn.h"

// clang-format off
#define MSDA_DECLARE(name, result, parameters, ...) __attribute__((visibility("default"))) result name parameters;
#define MSDA_ID(name, ...) k_##name,
#define MSDA_ENTRY(name, ...) {#name, reinterpret_cast<void*>(&name)},
#define MSDA_WRAPPER(name, result, parameters, arguments, handler) \
  result name parameters { return handler(Hook<decltype(name)>{k_##name}) arguments; }
// clang-format on

namespace cupti = msda::record::cupti;
extern "C" {
__attribute__((visibility("default"))) int InitializeInjection();
MSDA_CUPTI_HOOKS(MSDA_DECLARE)
}

namespace msda::record {

constinit thread_local bool launch_is_seen = false;

namespace {

constexpr char kInjection[] = "CUDA_INJECTION64_PATH";
constexpr char kDriverHook[] = "; launches are caught in the driver's API";

std::mutex mutex;  // guards the two below
cupti::Subscriber subscriber = nullptr;
cupti::Unsubscribe* unsubscribe = nullptr;
std::atomic<bool> listening{false}, takes_launches{false}, asked{false};

// Two copies of CUPTI in a process collide. The recorder therefore uses the copy that is loaded. It loads one only for
// --hook cupti, and for surveys and trails, which need all code, under the name by which a library that needs it later
// will find it.
void* find_library() {
  for (const char* name : cupti::kLibraryNames) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  }
  if (config().hook != HookChoice::kCupti && !config().watches_all()) return nullptr;
  for (const std::string& path : cupti::library_candidates()) {
    if (void* library = dlopen(path.c_str(), RTLD_LAZY)) return library;
  }
  return nullptr;
}

// A launch inside the driver, on this thread, whose entry CUPTI has reported.
struct PendingLaunch {
  uint32_t correlation = 0;
  Snapshot* snapshot = nullptr;      // of a launch that is recorded
  Survey::Ticket* ticket = nullptr;  // of one that is surveyed
  Trail::Ticket* trailed = nullptr;  // of one that has a row in a trail

  void forget() {
    delete std::exchange(snapshot, nullptr);
    delete std::exchange(ticket, nullptr);
    delete std::exchange(trailed, nullptr);
  }
};
constinit thread_local PendingLaunch pending_launch;

bool read(uint32_t id, const void* parameters, Launched& launched) {
  const bool is_cooperative = id == cupti::kLaunchCooperative || id == cupti::kLaunchCooperativePtsz;
  if (is_cooperative || id == cupti::kLaunchKernel || id == cupti::kLaunchKernelPtsz) {
    const auto& p = *static_cast<const cupti::LaunchKernelParameters*>(parameters);
    launched.function = p.function;
    launched.grid = {p.grid[0], p.grid[1], p.grid[2]};
    launched.block = {p.block[0], p.block[1], p.block[2]};
    launched.shared_bytes = p.shared_bytes;
    launched.stream = p.stream;
    launched.parameters = p.parameters;
    launched.extra = is_cooperative ? nullptr : p.extra;
    if (is_cooperative) launched.attributes = {&cuda::kCooperativeLaunch, 1};
  } else {
    const auto& p = *static_cast<const cupti::LaunchKernelExParameters*>(parameters);
    if (p.config == nullptr) return false;
    const auto &grid = p.config->grid, &block = p.config->block;
    launched.function = p.function;
    launched.grid = {grid[0], grid[1], grid[2]};
    launched.block = {block[0], block[1], block[2]};
    launched.shared_bytes = p.config->shared_bytes;
    launched.stream = p.config->stream;
    launched.attributes = {p.config->attributes, p.config->attributes != nullptr ? p.config->attribute_count : 0};
    launched.parameters = p.parameters;
    launched.extra = p.extra;
  }
  const bool per_thread =
      id == cupti::kLaunchKernelPtsz || id == cupti::kLaunchKernelExPtsz || id == cupti::kLaunchCooperativePtsz;
  if (launched.stream == nullptr && per_thread) launched.stream = cuda::kStreamPerThread;
  return true;
}

void begin_survey(const Launched& launched, uint32_t correlation) {
  auto ticket = std::make_unique<Survey::Ticket>();
  Survey::instance().before_launch(launched, *ticket);
  if (ticket->kernel != nullptr) pending_launch = {correlation, nullptr, ticket.release(), nullptr};
}

void begin_trail(const Launched& launched, uint32_t correlation) {
  auto ticket = std::make_unique<Trail::Ticket>();
  Trail::instance().before_launch(launched, *ticket);
  if (ticket->row) pending_launch = {correlation, nullptr, nullptr, ticket.release()};
}

void launch(uint32_t id, const cupti::CallbackData& data) {
  Launched launched{};
  if (data.site == cupti::kEnter) {
    if (launch_is_seen || inside || !read(id, data.parameters, launched)) return;
    pending_launch.forget();  // of a launch whose exit was not reported
    if (Survey::is_wanted()) return begin_survey(launched, data.correlation_id);
    if (Trail::is_wanted()) return begin_trail(launched, data.correlation_id);
    if (passes_by(launched.function)) return;
    auto snapshot = std::make_unique<Snapshot>();
    before_launch(launched, *snapshot);
    if (snapshot->state != nullptr) pending_launch = {data.correlation_id, snapshot.release(), nullptr, nullptr};
  } else if (pending_launch.correlation == data.correlation_id) {
    const std::unique_ptr<Snapshot> snapshot(std::exchange(pending_launch.snapshot, nullptr));
    const std::unique_ptr<Survey::Ticket> ticket(std::exchange(pending_launch.ticket, nullptr));
    const std::unique_ptr<Trail::Ticket> trailed(std::exchange(pending_launch.trailed, nullptr));
    if (data.result == nullptr || !read(id, data.parameters, launched)) return;
    const cuda::Result result = *static_cast<const cuda::Result*>(data.result);
    if (snapshot != nullptr) after_launch(launched, *snapshot, result);
    if (trailed != nullptr) Trail::instance().after_launch(*trailed, result);
    if (ticket != nullptr) Survey::instance().after_launch(launched, *ticket, result);
  }
}

void called_back(void*, int domain, uint32_t id, const void* data) noexcept {
  if (!listening || data == nullptr) return;
  try {
    if (domain == cupti::kDriverApi) {
      launch(id, *static_cast<const cupti::CallbackData*>(data));
    } else if (domain == cupti::kResource) {
      const auto* module =
          static_cast<const cupti::ModuleData*>(static_cast<const cupti::ResourceData*>(data)->descriptor);
      if (module == nullptr) return;
      if (id == cupti::kModuleLoaded) {
        cubin_loaded(module->id, module->cubin, module->bytes, keeps_code_of);
      } else {
        unloaded({Owner::kCupti, module->id});
      }
    }
  } catch (...) {  // no memory: this launch is not recorded
  }
}

// Returns why CUPTI is unavailable, or nothing.
std::string subscribe() {
  void* library = find_library();
  if (library == nullptr) return "no libcupti.so.13 or .12 is found: put its folder into LD_LIBRARY_PATH";
  auto* subscribe = reinterpret_cast<cupti::Subscribe*>(real_dlsym(library, "cuptiSubscribe"));
  auto* enable = reinterpret_cast<cupti::EnableCallback*>(real_dlsym(library, "cuptiEnableCallback"));
  const std::lock_guard lock(mutex);
  unsubscribe = reinterpret_cast<cupti::Unsubscribe*>(real_dlsym(library, "cuptiUnsubscribe"));
  if (subscribe == nullptr || enable == nullptr || unsubscribe == nullptr) return "its library is not complete";
  cupti::Subscriber ours = nullptr;
  if (const cupti::Result error = subscribe(&ours, called_back, nullptr); error != cupti::kSuccess) {
    return "cuptiSubscribe gives error " + std::to_string(error) + (error == 39 ? ": another tool has it" : "");
  }
  bool enabled = true;
  for (const uint32_t id : {cupti::kModuleLoaded, cupti::kModuleUnloadStarting}) {
    enabled = enabled && enable(1, ours, cupti::kResource, id) == cupti::kSuccess;
  }
  for (const uint32_t id : {cupti::kLaunchKernel, cupti::kLaunchKernelPtsz, cupti::kLaunchKernelEx,
                            cupti::kLaunchKernelExPtsz, cupti::kLaunchCooperative, cupti::kLaunchCooperativePtsz}) {
    enabled = enabled && enable(1, ours, cupti::kDriverApi, id) == cupti::kSuccess;
  }
  if (!enabled) {
    unsubscribe(ours);
    return "it does not report launches";
  }
  subscriber = ours;
  listening = true;
  takes_launches = config().hook == HookChoice::kCupti;
  set_cubins_arrive(true);
  return "";
}

// Unsubscribes. Returns false if the recorder was not subscribed.
bool give_up() noexcept {
  const std::lock_guard lock(mutex);
  if (subscriber == nullptr) return false;
  listening = false;
  takes_launches = false;
  set_cubins_arrive(false);
  unsubscribe(subscriber);
  subscriber = nullptr;
  return true;
}

// A function of CUPTI that the recorder replaces.
struct Interposed {
  const char* name;
  void* ours;
  std::atomic<void*> real{nullptr};
};
enum HookId { MSDA_CUPTI_HOOKS(MSDA_ID) kHooks };
Interposed hooks[kHooks] = {MSDA_CUPTI_HOOKS(MSDA_ENTRY)};

void* real(HookId id) {
  Interposed& hook = hooks[id];
  void* found = hook.real.load(std::memory_order_acquire);
  if (found == nullptr) {  // a caller that is linked to libcupti
    found = next_definition(hook.name);
    for (const char* name : cupti::kLibraryNames) {
      if (found == nullptr) found = definition_in(name, hook.name);
    }
    hook.real.store(found, std::memory_order_release);
  }
  return found;
}

// The hook as a wrapper's handler sees it.
template <class Function>
struct Hook {
  HookId id;

  template <class... Arguments>
  cupti::Result operator()(Arguments... arguments) const {
    auto* next = reinterpret_cast<Function*>(real(id));
    return next != nullptr ? next(arguments...) : cupti::kNotInitialized;
  }
};

void make_room() noexcept {
  const bool had_launches = takes_launches;
  if (give_up() && had_launches) warn(std::string("the program subscribes to CUPTI itself") + kDriverHook);
}

// The handlers, by the table's names.

template <class Function>
auto makes_room(Hook<Function> hook) {
  return [hook](auto... arguments) {
    if (real(hook.id) != nullptr) make_room();
    return hook(arguments...);
  };
}

template <class Function>
auto ends_cupti(Hook<Function> hook) {
  return [hook] {
    if (real(hook.id) != nullptr && give_up()) {
      warn(std::string("the program ends CUPTI (cuptiFinalize)") + kDriverHook);
    }
    return hook();
  };
}

}  // namespace

void* substitute_cupti(const char* name, void* found) noexcept {
  for (Interposed& hook : hooks) {
    if (std::strcmp(name, hook.name) != 0) continue;
    if (found != hook.ours && hook.real.exchange(found) != found) keep_loaded(found);
    return hook.ours;
  }
  return nullptr;
}

void offer_injection() noexcept {
  if (config().hook == HookChoice::kDriver) return;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&offer_injection), &info) == 0 || info.dli_fname == nullptr) return;
  if (char* path = realpath(info.dli_fname, nullptr)) {
    setenv(kInjection, path, /*overwrite=*/0);
    std::free(path);
  }
}

[[gnu::hot]] bool cupti_takes_launches() noexcept {
  if (takes_launches.load(std::memory_order_relaxed)) return true;
  if (config().hook == HookChoice::kCupti && !asked.exchange(true)) {
    const char* previous = getenv(kInjection);
    warn(std::string("--hook cupti: the driver did not load the recorder through ") + kInjection + "=" +
         (previous != nullptr ? previous : "") + kDriverHook);
  }
  return false;
}

}  // namespace msda::record

extern "C" {

using namespace msda::record;

int InitializeInjection() {
  if (asked.exchange(true) || config().hook == HookChoice::kDriver) return 1;
  try {
    const std::string trouble = subscribe();
    observe("cupti", trouble);
    if (!trouble.empty() && config().hook == HookChoice::kCupti) {
      warn("--hook cupti: CUPTI is unavailable: " + trouble + kDriverHook);
    }
  } catch (...) {
  }
  return 1;
}

MSDA_CUPTI_HOOKS(MSDA_WRAPPER)
}
