#include "tests/stand_in_driver/client.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/stand_in_driver/profiler.h"

namespace msda::stand_in {

namespace {

constexpr int kVersion = 13000;

// dlsym by its own name, so that a hook of dlsym sees it.
void* find_exported(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (!found) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return found;
}

// cuGetProcAddress knows names without their version, and a twin only by a flag.
void* find_by_driver(decltype(&cuGetProcAddress_v2) get, std::string name) {
  uint64_t flags = 0;
  if (name.ends_with("_ptsz")) {
    name.resize(name.size() - 5);
    flags = cuda::kPerThreadDefaultStream;
  }
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (get(name.c_str(), &found, kVersion, flags, &status) || !found) {
    throw std::runtime_error("cuGetProcAddress does not find " + name);
  }
  return found;
}

// The driver's functions, as a program finds them.
class Finder {
 public:
  explicit Finder(Via via) : via_(via), library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
    get_ = reinterpret_cast<decltype(get_)>(exported("cuGetProcAddress_v2"));
  }
  void* exported(const char* name) const { return find_exported(library_, name); }
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(via_ == Via::kDlsym ? exported(name) : find_by_driver(get_, name));
  }

 private:
  Via via_;
  void* library_;
  decltype(&cuGetProcAddress_v2) get_ = nullptr;
};

// Calls with so much of this thread's stack left, as on a thread that has no more.
template <class Call>
CUresult with_stack(const char* bytes_left, const Call& call) {
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &lowest, &bytes);
  pthread_attr_destroy(&attributes);
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  const auto left = static_cast<size_t>(here - static_cast<const char*>(lowest)), wanted = std::stoul(bytes_left);
  auto* taken = static_cast<volatile char*>(__builtin_alloca(left - wanted));
  taken[0] = 0;
  return call();
}

}  // namespace

void find_linked(Api& api, ProfilerApi& profiler) {
  void* const plugin = dlopen("libstand_in_plugin.so", RTLD_NOW | RTLD_LOCAL);
  if (!plugin) throw std::runtime_error(dlerror());
  reinterpret_cast<void (*)(Api*, ProfilerApi*)>(find_exported(plugin, "plugin_find"))(&api, &profiler);
}

GraphApi graph_api(Via via) {
  GraphApi api;
  const Finder finder(via);
#define MSDA_STAND_IN_FIND(name) finder.find(api.name, #name);
  MSDA_STAND_IN_GRAPH_FUNCTIONS(MSDA_STAND_IN_FIND)
#undef MSDA_STAND_IN_FIND
  return api;
}

Client::Client(Via via) {
  if (via == Via::kLinked) {
    ProfilerApi unused{};
    find_linked(api_, unused);
    start();
    return;
  }
  const Finder finder(via);
#define MSDA_STAND_IN_FIND(name) finder.find(api_.name, #name);
  MSDA_STAND_IN_FUNCTIONS(MSDA_STAND_IN_FIND)
#undef MSDA_STAND_IN_FIND
  hidden_launch_ = reinterpret_cast<decltype(hidden_launch_)>(finder.exported("stand_in_hidden_launch"));
  start();
}

void Client::start() {
  check(api_.cuInit(0));
  check(api_.cuDevicePrimaryCtxRetain(&context_, 0));
  enter_thread();
}

void Client::enter_thread() const { check(api_.cuCtxSetCurrent(context_)); }

CUfunction Client::load(const std::string& kernel, bool as_kernel) const {
  return load_image(kernel, "stand-in\n" + kernel + "\n", "data", as_kernel);
}

CUfunction Client::load_image(const std::string& kernel, const std::string& image, const std::string& call,
                              bool as_kernel) const {
  // Exactly as large as the image, so that a sanitizer reports reads past its end.
  const std::vector<char> copy(image.c_str(), image.c_str() + image.size() + 1);
  if (as_kernel) {
    CUlibrary library = nullptr;
    CUfunction handle = nullptr;
    for (const bool again : {false, true}) {
      if (again) check(api_.cuLibraryUnload(library));
      check(api_.cuLibraryLoadData(&library, copy.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    }
    check(api_.cuLibraryGetKernel(&handle, library, kernel.c_str()));
    return handle;
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  for (const bool again : {false, true}) {
    if (again) check(api_.cuModuleUnload(module));
    if (call == "ex") {
      check(api_.cuModuleLoadDataEx(&module, copy.data(), 0, nullptr, nullptr));
    } else if (call == "fatbin") {
      check(api_.cuModuleLoadFatBinary(&module, copy.data()));
    } else {
      check(api_.cuModuleLoadData(&module, copy.data()));
    }
  }
  check(api_.cuModuleGetFunction(&function, module, kernel.c_str()));
  return function;
}

CUdeviceptr Client::allocate(size_t bytes) const {
  CUdeviceptr pointer = 0;
  check(api_.cuMemAlloc_v2(&pointer, bytes));
  return pointer;
}

void Client::launch(LaunchWay way, CUfunction function, Extent grid, Extent block, CUstream stream,
                    std::span<const Argument> arguments) const {
  std::vector<void*> pointers;
  std::vector<std::byte> buffer;
  for (const Argument& argument : arguments) {
    pointers.push_back(const_cast<void*>(argument.data));
    if (!way.packed) continue;
    const size_t at = (buffer.size() + argument.alignment - 1) / argument.alignment * argument.alignment;
    buffer.resize(at + argument.bytes);
    std::memcpy(buffer.data() + at, argument.data, argument.bytes);
  }
  size_t bytes = buffer.size();
  void* options[] = {reinterpret_cast<void*>(cuda::kParamBufferPointer), buffer.data(),
                     reinterpret_cast<void*>(cuda::kParamBufferSize), &bytes, reinterpret_cast<void*>(cuda::kParamEnd)};
  void** const parameters = way.packed ? nullptr : pointers.data();
  void** const extra = way.packed ? options : nullptr;
  if (way.ex || way.hidden) {
    const cuda::LaunchConfig config{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, 0, stream, nullptr, 0};
    const auto twin = way.per_thread_default ? api_.cuLaunchKernelEx_ptsz : api_.cuLaunchKernelEx;
    const auto call = way.hidden ? hidden_launch_ : twin;
    check(call(&config, function, parameters, extra));
  } else if (way.cooperative) {
    const auto call = way.per_thread_default ? api_.cuLaunchCooperativeKernel_ptsz : api_.cuLaunchCooperativeKernel;
    check(call(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, parameters));
  } else {
    const auto call = way.per_thread_default ? api_.cuLaunchKernel_ptsz : api_.cuLaunchKernel;
    const auto launch = [&] {
      return call(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, parameters, extra);
    };
    const char* stack = std::getenv("MSDA_STAND_IN_STACK");
    const char* before = std::getenv("MSDA_STAND_IN_STACK_AFTER");  // so many launches, which have all of the stack
    static std::atomic<int> launches{0};
    const bool has_all = stack == nullptr || launches++ < (before != nullptr ? std::stoi(before) : 0);
    check(has_all ? launch() : with_stack(stack, launch));
  }
}

void Client::check(CUresult error) const {
  if (error == 0) return;
  const char* text = nullptr;
  if (api_.cuGetErrorString(error, &text) || !text) text = "unknown error";
  throw std::runtime_error("CUDA error " + std::to_string(error) + ": " + text);
}

}  // namespace msda::stand_in
