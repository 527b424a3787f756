// Intercepts the functions that set a program's seeds: the recorder's functions replace them, call them, and note the
// seed once it is set.
//
// Torch has two virtual functions for this. Every path in torch that sets a seed calls them through the generator's
// vtable, whose entries the dynamic linker binds by name to the first definition: the preload's.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/hooks/table.h"
#include "recorder/preload/session/seeds.h"
#include "recorder/preload/session/warn.h"

// clang-format off
#define MSDA_EXPORT __attribute__((visibility("default")))
#define MSDA_DECLARE(name, result, parameters, ...) MSDA_EXPORT result name parameters;
#define MSDA_ORIGINAL(name, ...) constinit Original original_##name(#name);
#define MSDA_SUBSTITUTE(name, ...) {&original_##name, reinterpret_cast<void*>(&name)},
// clang-format on

extern "C" {
MSDA_LIBRARY_SEED_HOOKS(MSDA_DECLARE)
}

namespace msda::record {
namespace {

bool lies_in(const dl_phdr_info& library, const void* address) {
  const auto offset = reinterpret_cast<uintptr_t>(address) - library.dlpi_addr;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const auto& part = library.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && offset - part.p_vaddr < part.p_memsz) return true;
  }
  return false;
}

struct Libraries {
  const void* near;
  std::vector<std::string> names;
};

// Returns all loaded libraries except the preload, first the one that contains `near`. The program itself is left out:
// its definitions come before the preload's anyway.
std::vector<std::string> libraries(const void* near) {
  Libraries found{near, {}};
  const auto add = [](dl_phdr_info* library, size_t, void* data) {
    auto& [address, names] = *static_cast<Libraries*>(data);
    if (*library->dlpi_name == 0 || lies_in(*library, reinterpret_cast<const void*>(&libraries))) return 0;
    names.emplace_back(library->dlpi_name);
    if (lies_in(*library, address)) names.front().swap(names.back());
    return 0;
  };
  dl_iterate_phdr(add, &found);
  return found.names;
}

// A function that ours replaces.
class Original {
 public:
  explicit constexpr Original(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  // Returns the definition that code at `near` would call without the preload: the next one or, if libraries were
  // loaded locally, as Python does, that of near's library or of a library that it needs. Null if there is none. Cached
  // for the first `near`; keeps errno.
  void* find(const void* near) noexcept {
    const Found* known = found_.load(std::memory_order_acquire);
    if (known != nullptr && known->near == near) return known->function;
    const int saved = errno;
    void* function = look_up(near);
    if (function != nullptr && known == nullptr) {
      auto* fresh = new (std::nothrow) Found{near, function};
      if (fresh != nullptr && !found_.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) delete fresh;
    }
    errno = saved;
    return function;
  }

 private:
  struct Found {
    const void* near;
    void* function;
  };

  void* look_up(const void* near) const noexcept {
    if (void* next = next_definition(name_)) return next;
    try {
      for (const std::string& library : libraries(near)) {
        void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (handle == nullptr) continue;
        void* function = real_dlsym(handle, name_);
        if (function != nullptr) return function;  // the handle is never closed, so the library stays
        dlclose(handle);
      }
    } catch (...) {  // no memory for the names
    }
    return nullptr;
  }

  const char* name_;
  std::atomic<const Found*> found_{nullptr};
};

// Constant-initialized, because a library's constructor may set a seed before the preload's constructors run.
MSDA_LIBRARY_SEED_HOOKS(MSDA_ORIGINAL)
MSDA_LIBC_SEED_HOOKS(MSDA_ORIGINAL)

// The hook as a wrapper's handler sees it.
template <class Function>
struct Hook {
  Original& original;
};

template <class Function>
Function* find(Original& original, const void* near = nullptr) {
  return reinterpret_cast<Function*>(original.find(near));
}

// The handlers, by the table's names.

void set_torch_seed(Original& original, SeedSource source, void* generator, uint64_t seed) {
  // The vtable lies in the generator's own library.
  auto* set = find<void(void*, uint64_t)>(original, *static_cast<void**>(generator));
  if (set == nullptr) {
    // The calling library defines it, so this does not happen. If it did, the generator would keep its old seed, and
    // the user must know.
    try {
      warn(std::string(original.name()) +
           " is in no loaded library: the generator keeps its old seed; run without the recorder");
    } catch (...) {
    }
    return;
  }
  set(generator, seed);
  note_seed(source, seed);
}

template <class Function>
auto sets_cuda_seed(Hook<Function> hook) {
  return [hook](void* generator, uint64_t seed) {
    set_torch_seed(hook.original, SeedSource::kTorchCuda, generator, seed);
  };
}
template <class Function>
auto sets_cpu_seed(Hook<Function> hook) {
  return
      [hook](void* generator, uint64_t seed) { set_torch_seed(hook.original, SeedSource::kTorchCpu, generator, seed); };
}

using CurandSeed = decltype(curandSetPseudoRandomGeneratorSeed);
constexpr int kCurandSuccess = 0, kCurandNotInitialized = 101;

int set_curand_seed(CurandSeed* set, void* generator, unsigned long long seed) noexcept {
  if (set == nullptr) return kCurandNotInitialized;
  const int status = set(generator, seed);
  if (status == kCurandSuccess) note_seed(SeedSource::kCurand, seed);
  return status;
}

template <class Function>
[[gnu::always_inline]] inline auto sets_curand_seed(Hook<Function> hook) {
  const void* caller = __builtin_return_address(0);
  return [hook, caller](void* generator, unsigned long long seed) {
    return set_curand_seed(find<CurandSeed>(hook.original, caller), generator, seed);
  };
}

template <class Function>
auto sets_seed(Hook<Function> hook) {
  return [hook](auto seed) {
    if (auto* set = find<Function>(hook.original)) set(seed);
    note_seed(SeedSource::kLibc, static_cast<uint64_t>(seed));
  };
}

template <class Function>
auto sets_state(Hook<Function> hook) {
  return [hook](unsigned seed, char* state, size_t size) {
    auto* set = find<Function>(hook.original);
    char* before = set != nullptr ? set(seed, state, size) : nullptr;
    if (before != nullptr) note_seed(SeedSource::kLibc, seed);
    return before;
  };
}

template <class Function>
auto sets_48_bits(Hook<Function> hook) {
  return [hook](unsigned short* seed) {
    // Read first: the program may pass the C library's own copy of an older seed, which the call overwrites.
    const uint64_t value = seed[0] | uint64_t{seed[1]} << 16 | uint64_t{seed[2]} << 32;
    auto* set = find<Function>(hook.original);
    unsigned short* before = set != nullptr ? set(seed) : nullptr;
    note_seed(SeedSource::kLibc, value);
    return before;
  };
}

// Returned by dlsym in place of the exported function: a library linked to another cuRAND must not get this one.
std::atomic<CurandSeed*> looked_up_curand{nullptr};
int set_looked_up_curand_seed(void* generator, unsigned long long seed) {
  return set_curand_seed(looked_up_curand.load(), generator, seed);
}

}  // namespace

void* substitute_seed(const char* name, void* found) noexcept {
  if (std::strcmp(name, original_curandSetPseudoRandomGeneratorSeed.name()) == 0) {
    auto* function = reinterpret_cast<CurandSeed*>(found);
    if (function == &curandSetPseudoRandomGeneratorSeed) return nullptr;
    // Seeds of a second copy of cuRAND in a process are not recorded.
    return is_first_copy(looked_up_curand, function) ? reinterpret_cast<void*>(&set_looked_up_curand_seed) : nullptr;
  }
  const std::pair<Original*, void*> ours[] = {MSDA_LIBC_SEED_HOOKS(MSDA_SUBSTITUTE)};
  for (const auto& [original, function] : ours) {  // another library may have a function of this name
    if (std::strcmp(name, original->name()) == 0 && found == original->find(nullptr)) return function;
  }
  return nullptr;
}

}  // namespace msda::record

using namespace msda::record;

// Inlined into the wrapper, because it takes the wrapper's return address.
// clang-format off
#define MSDA_WRAPPER(name, result, parameters, arguments, handler) \
  result name parameters { return handler(Hook<result parameters>{original_##name}) arguments; }
#define MSDA_LIBC_WRAPPER(name, result, parameters, arguments, handler) \
  MSDA_EXPORT result name parameters noexcept { return handler(Hook<result parameters>{original_##name}) arguments; }
// clang-format on

extern "C" {
MSDA_LIBRARY_SEED_HOOKS(MSDA_WRAPPER)
MSDA_LIBC_SEED_HOOKS(MSDA_LIBC_WRAPPER)
}
