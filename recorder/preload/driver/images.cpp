#include "recorder/preload/driver/images.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "recorder/adapters/made_once.h"
#include "recorder/device/cubin.h"
#include "recorder/spool/checksum.h"

namespace msda::record {
namespace {

struct Stored : Image {
  std::vector<std::byte> memory;
  std::vector<std::string> functions;  // the interesting ones
  int architecture = 0;                // 0: that of this device

  bool defines(std::string_view name) const { return std::ranges::find(functions, name) != functions.end(); }
};
using StoredPtr = std::shared_ptr<const Stored>;

// Returns null for a cubin without an interesting function.
std::shared_ptr<Stored> stored(const Cubin& cubin, CodeFilter is_interesting) {
  std::vector<std::string> functions;
  for (const std::string_view name : functions_in(cubin.bytes)) {
    if (is_interesting(name)) functions.emplace_back(name);
  }
  if (functions.empty()) return nullptr;
  auto image = std::make_shared<Stored>();
  image->memory.assign(cubin.bytes.begin(), cubin.bytes.end());
  image->bytes = image->memory;
  image->digest = spool::digest_of(image->bytes);
  image->functions = std::move(functions);
  image->architecture = cubin.architecture;
  return image;
}

bool has_same_code(const Stored& a, const Stored& b, std::string_view function) {
  return a.digest == b.digest || std::ranges::equal(code_of(a.bytes, function), code_of(b.bytes, function));
}

class Images {
 public:
  // A forked child may unload code, as libraries do when it exits, but the driver does not work in a child.
  Images() {
    pthread_atfork(nullptr, nullptr, [] { all().forget_in_child(); });
  }

  static Images& all() {
    static constinit MadeOnce<Images> images;
    return images.get();
  }

  void add(Owner owner, std::shared_ptr<Stored> image) {
    const std::lock_guard lock(mutex_);
    StoredPtr shared = std::move(image);
    for (const auto& [their_owner, images] : loaded_) {  // equal code is stored once
      for (const StoredPtr& known : images) {
        if (known->digest == shared->digest && known->architecture == shared->architecture) shared = known;
      }
    }
    loaded_[owner].push_back(std::move(shared));
  }

  // Gives this owner, too, what CUPTI handed over under its own number.
  void share(Owner cupti, Owner owner) {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(cupti);
    if (found == loaded_.end()) return;
    const std::vector<StoredPtr> images = found->second;
    auto& to = loaded_[owner];
    to.insert(to.end(), images.begin(), images.end());
  }

  void forget(Owner owner) {
    const std::lock_guard lock(mutex_);
    loaded_.erase(owner);
  }

  // Returns the image in which this owner's function lies. The driver takes the newest of a fatbin's cubins that the
  // device can run.
  StoredPtr find(Owner owner, std::string_view function, int architecture) const {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(owner);
    if (found == loaded_.end()) return nullptr;
    StoredPtr best;
    for (const StoredPtr& image : found->second) {
      if (!image->defines(function)) continue;
      if (image->architecture == 0) return image;
      const bool runs = image->architecture / 10 == architecture / 10 && image->architecture <= architecture;
      if (runs && (best == nullptr || best->architecture < image->architecture)) best = image;
    }
    return best;
  }

  // Returns the one of CUPTI's cubins with a function of this name, or one of several in which its code is the same.
  // Null if there is none, or their code differs.
  StoredPtr only(std::string_view function) const {
    const std::lock_guard lock(mutex_);
    StoredPtr only;
    for (const auto& [owner, images] : loaded_) {
      if (owner.kind != Owner::kCupti || !images.front()->defines(function)) continue;
      if (only != nullptr && !has_same_code(*only, *images.front(), function)) return nullptr;
      only = images.front();
    }
    return only;
  }

 private:
  // Nothing is destroyed, because another thread of the parent may have been changing it.
  void forget_in_child() {
    new (&mutex_) std::mutex;
    new (&loaded_) std::map<Owner, std::vector<StoredPtr>>;
  }

  mutable std::mutex mutex_;
  std::map<Owner, std::vector<StoredPtr>> loaded_;
};

std::atomic<bool> cubins_arrive{false};
std::atomic<uint64_t> unload_count{0};
thread_local Loading* current_loading = nullptr;
thread_local int own_code = 0;

Owner owner_of(cuda::Function function, bool is_kernel) {
  const cuda::Driver& driver = cuda::driver();
  if (is_kernel) {
    cuda::Library library = nullptr;
    if (driver.kernel_library == nullptr || driver.kernel_library(&library, function) != cuda::kSuccess) return {};
    return {Owner::kLibrary, reinterpret_cast<uintptr_t>(library)};
  }
  cuda::Module module = nullptr;
  if (driver.function_module == nullptr || driver.function_module(&module, function) != cuda::kSuccess) return {};
  return {Owner::kModule, reinterpret_cast<uintptr_t>(module)};
}

// Returns null if there is none.
cuda::Function function_of(cuda::Function function, bool is_kernel) {
  if (!is_kernel) return function;
  cuda::Function real = nullptr;
  const auto get = cuda::driver().kernel_function;
  return get != nullptr && get(&real, function) == cuda::kSuccess ? real : nullptr;
}

// Returns 90 for compute capability 9.0; 0 if unknown.
int architecture_here() {
  const cuda::Driver& driver = cuda::driver();
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
  int device = 0, major = 0, minor = 0;
  if (driver.device_attribute == nullptr || driver.current_device(&device) != cuda::kSuccess ||
      driver.device_attribute(&major, kMajor, device) != cuda::kSuccess ||
      driver.device_attribute(&minor, kMinor, device) != cuda::kSuccess) {
    return 0;
  }
  return 10 * major + minor;
}

std::shared_ptr<const Image> find_image(cuda::Function function, bool is_kernel) {
  const cuda::Driver& driver = cuda::driver();
  const char* name = nullptr;
  if (driver.missing != nullptr ||
      (is_kernel ? driver.kernel_name : driver.function_name)(&name, function) != cuda::kSuccess || name == nullptr) {
    return nullptr;
  }
  const Owner owner = owner_of(function, is_kernel);
  const int architecture = architecture_here();
  if (auto image = Images::all().find(owner, name, architecture)) return image;
  {
    // The driver loads code at its first use. Loading it now makes CUPTI hand it over.
    Loading loading;
    const cuda::Function real = function_of(function, is_kernel);
    if (real != nullptr && driver.function_load != nullptr) driver.function_load(real);
    loading.done(owner, nullptr, nullptr);
  }
  if (auto image = Images::all().find(owner, name, architecture)) return image;
  return cubins_arrive ? Images::all().only(name) : nullptr;
}

}  // namespace

std::shared_ptr<const Image> image_of(cuda::Function function, bool is_kernel) noexcept {
  const int saved = errno;
  std::shared_ptr<const Image> image;
  try {
    image = find_image(function, is_kernel);
  } catch (...) {  // no memory
  }
  errno = saved;
  return image;
}

std::optional<VariablePlace> variable_of(cuda::Function function, bool is_kernel, const std::string& name) {
  const cuda::Driver& driver = cuda::driver();
  const Owner owner = owner_of(function, is_kernel);
  VariablePlace place;
  cuda::Result result = !cuda::kSuccess;
  if (owner.kind == Owner::kLibrary && driver.library_global != nullptr) {
    auto* library = reinterpret_cast<cuda::Library>(owner.handle);
    result = driver.library_global(&place.address, &place.bytes, library, name.c_str());
  } else if (owner.kind == Owner::kModule && driver.module_global != nullptr) {
    auto* module = reinterpret_cast<cuda::Module>(owner.handle);
    result = driver.module_global(&place.address, &place.bytes, module, name.c_str());
  }
  return result == cuda::kSuccess ? std::optional(place) : std::nullopt;
}

CodeFacts code_facts_of(cuda::Function function, bool is_kernel) noexcept {
  // CU_FUNC_ATTRIBUTE_*
  constexpr struct {
    int attribute;
    const char* name;
  } kIntegers[] = {
      {0, "max_threads"}, {1, "shared_bytes"}, {2, "constant_bytes"}, {3, "local_bytes"}, {4, "registers"}};
  constexpr int kBinaryVersion = 6;
  CodeFacts facts;
  try {
    const auto get = cuda::driver().function_attribute;
    const cuda::Function real = function_of(function, is_kernel);
    if (get == nullptr || real == nullptr) return facts;
    int value = 0;
    for (const auto& [attribute, name] : kIntegers) {
      if (get(&value, attribute, real) == cuda::kSuccess) facts.integers[name] = value;
    }
    if (get(&value, kBinaryVersion, real) == cuda::kSuccess) facts.architecture = "sm_" + std::to_string(value);
  } catch (...) {
  }
  return facts;
}

Loading::Loading() noexcept : outer_(current_loading) { current_loading = this; }
Loading::~Loading() { current_loading = outer_; }

void Loading::done(Owner owner, const void* image, CodeFilter is_interesting) noexcept {
  if (owner.kind == Owner::kNone) return;
  const int saved = errno;
  try {
    if (image != nullptr) Images::all().forget(owner);  // the handle may have meant another module before
    // What CUPTI says was loaded comes first, then what the program handed over, which may contain it.
    for (const Owner cupti : arrived_) Images::all().share(cupti, owner);
    if (image != nullptr) {
      for (const Cubin& cubin : cubins_in(image)) {
        if (auto kept = stored(cubin, is_interesting)) Images::all().add(owner, std::move(kept));
      }
    }
  } catch (...) {  // no memory: the code stays unknown
  }
  errno = saved;
}

OwnCode::OwnCode() noexcept { ++own_code; }
OwnCode::~OwnCode() { --own_code; }

void cubin_loaded(uint32_t cupti_module, const void* cubin, size_t bytes, CodeFilter is_interesting) noexcept {
  if (own_code > 0) return;
  const int saved = errno;
  try {
    const Owner owner{Owner::kCupti, cupti_module};
    Images::all().forget(owner);
    if (auto kept = stored({cubin_at(cubin, bytes), 0}, is_interesting)) {
      Images::all().add(owner, std::move(kept));
      if (current_loading != nullptr) current_loading->arrived_.insert(owner);
    }
  } catch (...) {  // no memory: with one cubin missing, the names in the others decide nothing
    cubins_arrive = false;
  }
  errno = saved;
}

void unloaded(Owner owner) noexcept {
  ++unload_count;
  try {
    Images::all().forget(owner);
  } catch (...) {
  }
}

void context_unloaded() noexcept { ++unload_count; }

[[gnu::hot]] uint64_t unloads() noexcept { return unload_count.load(std::memory_order_relaxed); }

void set_cubins_arrive(bool arrive) noexcept { cubins_arrive = arrive; }

}  // namespace msda::record
