// Modules, libraries, their functions and kernels, and launches.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/graph.h"
#include "tests/stand_in_driver/image.h"
#include "tests/stand_in_driver/kernels.h"
#include "tests/stand_in_driver/survey_kernels.h"
#include "tests/stand_in_driver/trace.h"

namespace msda::stand_in {

// What a launch may ask for unless cuFuncSetAttribute allows more.
constexpr unsigned int kAlwaysAllowedSharedBytes = 48 << 10;

struct CUkern_st {
  const KernelCode* code;
  CUlibrary library;
  std::unique_ptr<cuda::FunctionHandle> function;  // what cuKernelGetFunction gives
};

static uint32_t next_id() {
  static std::atomic<uint32_t> id{0};
  return ++id;
}

using NamedFunctions = std::map<std::string, cuda::FunctionHandle, std::less<>>;

}  // namespace msda::stand_in

namespace msda::cuda {

struct FunctionHandle {
  const stand_in::KernelCode* code;
  Module module;
  unsigned int most_shared_bytes = stand_in::kAlwaysAllowedSharedBytes;
};

struct ModuleHandle {
  const uint32_t id = stand_in::next_id();
  Context context = nullptr;  // that it was loaded into; a library has none
  std::vector<std::byte> cubin;
  stand_in::NamedFunctions functions;
};

struct LibraryHandle {
  bool image_good;
  ModuleHandle module;
  std::map<std::string, stand_in::CUkern_st, std::less<>> kernels;
  std::atomic<bool> loaded{false};  // to the device: with the first use of a kernel
};

}  // namespace msda::cuda

namespace msda::stand_in {
namespace {

constexpr unsigned int kMostThreads = 1024, kMostBlocksYZ = 65535;

using ArgumentBytes = std::vector<std::byte>;  // as many as the kernel has

// All live handles. A CUfunction may be a CUkernel in disguise, for launches alone.
struct Modules {
  std::mutex mutex;
  std::map<CUmodule, std::unique_ptr<cuda::ModuleHandle>> modules;
  std::map<CUlibrary, std::unique_ptr<cuda::LibraryHandle>> libraries;
  std::set<CUfunction> functions;
  std::set<CUkernel> kernels;
  std::vector<NamedFunctions::node_type> free;  // of unloaded modules: their handles come again, the last one first
};

Modules& modules() {
  static Modules* const instance = new Modules;
  return *instance;
}

void load_module(CUlibrary library) {
  if (!library->loaded.exchange(true)) trace_module(kCbidModuleLoaded, library->module.id, library->module.cubin);
}

CUresult parameter_info(const KernelCode& code, size_t index, size_t* offset, size_t* bytes) {
  if (!offset || index >= code.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = code.parameters[index].offset;
  if (bytes) *bytes = code.parameters[index].bytes;
  return CUDA_SUCCESS;
}

// Null for a handle that is neither.
const KernelCode* code_to_launch(CUfunction function) {
  const auto kernel = reinterpret_cast<CUkernel>(function);
  {
    const std::lock_guard lock(modules().mutex);
    if (modules().functions.contains(function)) return function->code;
    if (!modules().kernels.contains(kernel)) return nullptr;
  }
  load_module(kernel->library);
  return kernel->code;
}

// A library's kernels are of every context.
bool is_of_this_context(CUfunction function) {
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return true;
  const CUcontext context = function->module->context;
  return context == nullptr || context == context_of_thread();
}

unsigned int most_shared_bytes(CUfunction function) {
  const std::lock_guard lock(modules().mutex);
  return modules().functions.contains(function) ? function->most_shared_bytes : kAlwaysAllowedSharedBytes;
}

// Without loading what is not loaded yet.
const char* name_to_tell(CUfunction function) {
  if (enter() == CUDA_ERROR_NOT_INITIALIZED) return "";  // in a forked child the lock may be somebody's for ever
  const std::lock_guard lock(modules().mutex);
  if (modules().functions.contains(function)) return function->code->name.c_str();
  const auto kernel = reinterpret_cast<CUkernel>(function);
  return modules().kernels.contains(kernel) ? kernel->code->name.c_str() : "";
}

// Arguments packed by the caller.
CUresult unpack(const KernelCode& code, void** extra, ArgumentBytes& bytes) {
  const void* buffer = nullptr;
  const size_t* size = nullptr;
  for (; reinterpret_cast<uintptr_t>(*extra) != cuda::kParamEnd; extra += 2) {
    const auto key = reinterpret_cast<uintptr_t>(*extra);
    if (key == cuda::kParamBufferPointer) {
      buffer = extra[1];
    } else if (key == cuda::kParamBufferSize) {
      size = static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (!buffer || !size) return CUDA_ERROR_INVALID_VALUE;
  if (*size > code.argument_bytes()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  std::memcpy(bytes.data(), buffer, *size);  // what is missing stays 0
  return CUDA_SUCCESS;
}

CUresult gather_into(const KernelCode& code, void** parameters, ArgumentBytes& bytes) {
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(bytes.data() + code.parameters[i].offset, parameters[i], code.parameters[i].bytes);
  }
  return CUDA_SUCCESS;
}

// What it launches, as the real driver reports it: a CUkernel's function as well.
cuda::GraphNodeHandle kernel_node(const cuda::LaunchConfig& c, CUfunction function, ArgumentBytes bytes) {
  cuda::GraphNodeHandle node{cuda::NodeType::kKernel};
  node.kernel = {function,
                 {c.grid[0], c.grid[1], c.grid[2]},
                 {c.block[0], c.block[1], c.block[2]},
                 c.shared_bytes,
                 nullptr,
                 nullptr,
                 nullptr,
                 context_of_thread()};
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) {
    node.kernel.kernel = function;
    node.kernel.function = reinterpret_cast<CUkernel>(function)->function.get();
  }
  node.code = node.kernel.function->code;
  node.bytes = std::move(bytes);
  node.attributes.assign(c.attributes, c.attributes + c.attribute_count);
  return node;
}

CUresult launch(const cuda::LaunchConfig* config, CUfunction function, void** parameters, void** extra,
                bool null_is_per_thread) {
  if (const CUresult error = enter()) return error;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  const KernelCode* const code = code_to_launch(function);
  if (!code || !is_of_this_context(function)) return CUDA_ERROR_INVALID_HANDLE;
  const cuda::LaunchConfig& c = *config;
  if (!c.grid[0] || !c.grid[1] || !c.grid[2] || c.grid[1] > kMostBlocksYZ || c.grid[2] > kMostBlocksYZ || !c.block[0] ||
      !c.block[1] || !c.block[2] || uint64_t{c.block[0]} * c.block[1] * c.block[2] > kMostThreads ||
      c.shared_bytes > most_shared_bytes(function) || (c.attribute_count && !c.attributes) || !parameters == !extra) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ArgumentBytes bytes(code->argument_bytes());
  if (const CUresult error = parameters ? gather_into(*code, parameters, bytes) : unpack(*code, extra, bytes))
    return error;
  return submit_or_capture(c.stream, kernel_node(c, function, std::move(bytes)), null_is_per_thread);
}

// With the lock held; the next module after it.
auto unload(std::map<CUmodule, std::unique_ptr<cuda::ModuleHandle>>::iterator module) {
  NamedFunctions& named = module->second->functions;
  for (auto& [name, function] : named) modules().functions.erase(&function);
  while (!named.empty()) modules().free.push_back(named.extract(named.begin()));
  return modules().modules.erase(module);
}

// With the lock held.
void add_function(CUmodule module, const KernelCode* code) {
  if (modules().free.empty()) {
    module->functions[code->name] = {code, module};
  } else {
    auto node = std::move(modules().free.back());
    modules().free.pop_back();
    node.key() = code->name;
    node.mapped() = {code, module};
    module->functions.insert(std::move(node));
  }
  modules().functions.insert(&module->functions.at(code->name));
}

}  // namespace

CUresult kernel_node_of(const cuda::KernelNodeParameters& given, cuda::GraphNodeHandle& node) {
  const CUfunction function = given.function ? given.function : given.kernel;
  const KernelCode* const code = code_to_launch(function);
  if (!code) return CUDA_ERROR_INVALID_HANDLE;
  if (!given.parameters == !given.extra) return CUDA_ERROR_INVALID_VALUE;
  ArgumentBytes bytes(code->argument_bytes());
  const CUresult error =
      given.parameters ? gather_into(*code, given.parameters, bytes) : unpack(*code, given.extra, bytes);
  if (!error) {
    const cuda::LaunchConfig config{{given.grid[0], given.grid[1], given.grid[2]},
                                    {given.block[0], given.block[1], given.block[2]},
                                    given.shared_bytes,
                                    nullptr,
                                    nullptr,
                                    0};
    node = kernel_node(config, function, std::move(bytes));
  }
  if (!error && given.context) node.kernel.context = given.context;
  return error;
}

void end_modules_of(CUcontext context) {
  const std::lock_guard lock(modules().mutex);
  for (auto module = modules().modules.begin(); module != modules().modules.end();) {
    module = module->second->context == context ? unload(module) : std::next(module);
  }
}

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (const CUresult error = enter()) return error;
  if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
  auto [codes, cubin] = read_image(image);
  if (codes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  // Every cubin here is for sm_90.
  if (!cubin.empty() && architecture() != 90) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto fresh = std::make_unique<cuda::ModuleHandle>();
  *module = fresh.get();
  fresh->context = context_of_thread();
  fresh->cubin = std::move(cubin);
  trace_module(kCbidModuleLoaded, fresh->id, fresh->cubin);
  const std::lock_guard lock(modules().mutex);
  for (const KernelCode* const code : codes) add_function(*module, code);
  modules().modules[*module] = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, int*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleUnload(CUmodule module) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(modules().mutex);
  const auto found = modules().modules.find(module);
  if (found == modules().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  trace_module(kCbidModuleUnloadStarting, module->id, module->cubin);
  unload(found);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(modules().mutex);
  const auto found = modules().modules.find(module);
  if (found == modules().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (!function || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  const auto named = found->second->functions.find(name);
  if (named == found->second->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = &named->second;
  return CUDA_SUCCESS;
}

// There is one variable, which every module has.
CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(modules().mutex);
  if (!modules().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  if (!name || std::strcmp(name, kCounter) != 0) return CUDA_ERROR_NOT_FOUND;
  if (pointer) *pointer = counter();
  if (bytes) *bytes = sizeof(int);
  return CUDA_SUCCESS;
}

// The real driver's three fail on a CUkernel in disguise, and so do these.
CUresult cuFuncGetName(const char** name, CUfunction function) {
  if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->code->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  return parameter_info(*function->code, index, offset, bytes);
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  if (!module || !function) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  *module = function->module;
  return CUDA_SUCCESS;
}

// Needs no context, and finds out only at the first use whether the image is one: both as in the real driver.
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, int*, void**, unsigned int, int*, void**,
                           unsigned int) {
  if (const CUresult error = enter(); error && error != CUDA_ERROR_INVALID_CONTEXT) return error;
  if (!library || !image) return CUDA_ERROR_INVALID_VALUE;
  auto [codes, cubin] = read_image(image);
  auto fresh = std::make_unique<cuda::LibraryHandle>();
  *library = fresh.get();
  fresh->module.cubin = std::move(cubin);
  fresh->image_good = !codes.empty();
  const std::lock_guard lock(modules().mutex);
  for (const KernelCode* const code : codes) {
    CUkern_st& kernel = fresh->kernels[code->name];
    kernel = {code, *library, std::make_unique<cuda::FunctionHandle>(cuda::FunctionHandle{code, &fresh->module})};
    modules().kernels.insert(&kernel);
    modules().functions.insert(kernel.function.get());
  }
  modules().libraries[*library] = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
  if (enter() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(modules().mutex);
  const auto found = modules().libraries.find(library);
  if (found == modules().libraries.end()) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& [name, kernel] : library->kernels) {
    modules().functions.erase(kernel.function.get());
    modules().kernels.erase(&kernel);
  }
  modules().libraries.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUfunction* kernel, CUlibrary library, const char* name) {
  if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  const auto found = modules().libraries.find(library);
  if (found == modules().libraries.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->second->image_good) return CUDA_ERROR_INVALID_IMAGE;
  const auto named = found->second->kernels.find(name);
  const char* const refused = std::getenv("MSDA_STAND_IN_REFUSED");  // how the names of some begin
  if (refused != nullptr && std::string_view(name).starts_with(refused)) return CUDA_ERROR_NOT_SUPPORTED;
  if (named == found->second->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *kernel = reinterpret_cast<CUfunction>(&named->second);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(modules().mutex);
  if (!modules().libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
  if (!name || std::strcmp(name, kCounter) != 0) return CUDA_ERROR_NOT_FOUND;
  if (pointer) *pointer = counter();
  if (bytes) *bytes = sizeof(int);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUfunction handle) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  if (const CUresult error = enter()) return error;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  {
    const std::lock_guard lock(modules().mutex);
    if (!modules().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    *function = kernel->function.get();
  }
  load_module(kernel->library);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUfunction handle) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  if (!library || !kernel) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *library = kernel->library;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction function) {
  // By CUfunction_attribute: threads, shared, constant and local bytes, registers, versions of PTX and code.
  constexpr int kValues[] = {1024, 16, 8, 0, 40, 90, 90};
  if (!value || attribute < 0 || attribute > 6) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  *value = kValues[attribute];
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  // The largest dynamic shared memory, and clusters that are not portable.
  if ((attribute != 8 && attribute != 14) || value < 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == 8) function->most_shared_bytes = static_cast<unsigned int>(value);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUfunction handle) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  if (!name || !kernel) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->code->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  if (!kernel) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(modules().mutex);
  if (!modules().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return parameter_info(*kernel->code, index, offset, bytes);
}

CUresult cuLaunchKernelEx(const cuda::LaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  const LaunchExParameters launch_ex_parameters{config, function, parameters, extra};
  return traced(kCbidLaunchEx, name_to_tell(function), &launch_ex_parameters,
                [&] { return launch(config, function, parameters, extra, false); });
}

CUresult cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  const LaunchExParameters launch_ex_parameters{config, function, parameters, extra};
  return traced(kCbidLaunchExPtsz, name_to_tell(function), &launch_ex_parameters,
                [&] { return launch(config, function, parameters, extra, true); });
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void** parameters, void** extra) {
  const cuda::LaunchConfig config{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  const LaunchParameters launch_parameters{
      function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, parameters, extra};
  return traced(kCbidLaunch, name_to_tell(function), &launch_parameters,
                [&] { return launch(&config, function, parameters, extra, false); });
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z,
                             unsigned int shared_bytes, CUstream stream, void** parameters, void** extra) {
  const cuda::LaunchConfig config{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  const LaunchParameters launch_parameters{
      function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, parameters, extra};
  return traced(kCbidLaunchPtsz, name_to_tell(function), &launch_parameters,
                [&] { return launch(&config, function, parameters, extra, true); });
}

// A tool gets no `extra`: what it would read there is not zero.
static CUresult launch_cooperatively(uint32_t id, const cuda::LaunchConfig& config, CUfunction function,
                                     void** parameters, bool null_is_per_thread) {
  static void* const none[] = {nullptr};
  const LaunchParameters launch_parameters{function,
                                           {config.grid[0], config.grid[1], config.grid[2]},
                                           {config.block[0], config.block[1], config.block[2]},
                                           config.shared_bytes,
                                           config.stream,
                                           parameters,
                                           const_cast<void**>(none)};
  return traced(id, name_to_tell(function), &launch_parameters,
                [&] { return launch(&config, function, parameters, nullptr, null_is_per_thread); });
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, CUstream stream, void** parameters) {
  return launch_cooperatively(kCbidLaunchCooperative,
                              {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0},
                              function, parameters, false);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                        void** parameters) {
  return launch_cooperatively(kCbidLaunchCooperativePtsz,
                              {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0},
                              function, parameters, true);
}

CUresult stand_in_hidden_launch(const cuda::LaunchConfig* config, CUfunction function, void** parameters,
                                void** extra) {
  return cuLaunchKernelEx(config, function, parameters, extra);
}

}  // extern "C"

}  // namespace msda::stand_in
