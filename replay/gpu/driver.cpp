#include "replay/gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

namespace msda::replay::gpu {
namespace {

constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr Result kNotFound = 500;
constexpr unsigned kHost = 1, kDevice = 2;  // CU_MEMORYTYPE_*

Api load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure(kNotFound, "this machine has no CUDA driver (libcuda.so.1)");
  Api api{};
  // Uses dlsym, not cuGetProcAddress, whose result for a name depends on the requested version.
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (function == nullptr) {
      throw Failure(kNotFound, fmt::format("the CUDA driver lacks {}; it is older than CUDA 12.4", name));
    }
  };
#define MSDA_FIND(name) find(api.name, #name)
  MSDA_FIND(cuInit);
  MSDA_FIND(cuDriverGetVersion);
  MSDA_FIND(cuGetErrorString);
  MSDA_FIND(cuDeviceGetCount);
  MSDA_FIND(cuDeviceGet);
  MSDA_FIND(cuDeviceGetName);
  MSDA_FIND(cuDeviceGetAttribute);
  MSDA_FIND(cuDevicePrimaryCtxRetain);
  MSDA_FIND(cuCtxSetCurrent);
  MSDA_FIND(cuMemGetInfo_v2);
  MSDA_FIND(cuMemAlloc_v2);
  MSDA_FIND(cuMemFree_v2);
  MSDA_FIND(cuMemHostAlloc);
  MSDA_FIND(cuMemFreeHost);
  MSDA_FIND(cuMemcpyHtoD_v2);
  MSDA_FIND(cuMemcpyDtoH_v2);
  MSDA_FIND(cuMemcpyHtoDAsync_v2);
  MSDA_FIND(cuMemcpyDtoHAsync_v2);
  MSDA_FIND(cuMemcpy2DAsync_v2);
  MSDA_FIND(cuMemcpyDtoDAsync_v2);
  MSDA_FIND(cuMemsetD8_v2);
  MSDA_FIND(cuStreamCreate);
  MSDA_FIND(cuStreamSynchronize);
  MSDA_FIND(cuEventCreate);
  MSDA_FIND(cuEventDestroy_v2);
  MSDA_FIND(cuEventRecord);
  MSDA_FIND(cuEventElapsedTime);
  MSDA_FIND(cuModuleLoadData);
  MSDA_FIND(cuModuleGetFunction);
  MSDA_FIND(cuFuncGetAttribute);
  MSDA_FIND(cuFuncSetAttribute);
  MSDA_FIND(cuFuncGetParamInfo);
  MSDA_FIND(cuLaunchKernelEx);
#undef MSDA_FIND
  return api;
}

void check(const Api& api, Result result, const std::string& doing) {
  if (result == 0) return;
  const char* text = nullptr;
  if (api.cuGetErrorString(result, &text) != 0 || text == nullptr) text = "unknown error";
  throw Failure(result, fmt::format("cannot {}: {} (CUDA error {})", doing, text, result));
}

int device_count(const Api& api) {
  int count = 0;
  check(api, api.cuInit(0), "start the CUDA driver");
  check(api, api.cuDeviceGetCount(&count), "count the devices");
  return count;
}

DeviceFacts device_facts(const Api& api, int device) {
  char name[256] = {};
  int major = 0, minor = 0;
  check(api, api.cuDeviceGetName(name, sizeof name - 1, device), "query the device's name");
  check(api, api.cuDeviceGetAttribute(&major, kMajor, device), "query the device's architecture");
  check(api, api.cuDeviceGetAttribute(&minor, kMinor, device), "query the device's architecture");
  return {name, 10 * major + minor};
}

}  // namespace

DriverFacts driver_facts() {
  const Api api = load_driver();
  constexpr Result kNoDevice = 100;
  const Result started = api.cuInit(0);
  DriverFacts facts;
  check(api, api.cuDriverGetVersion(&facts.version), "query the driver's version");
  if (started == kNoDevice) return facts;
  for (int ordinal = 0, count = device_count(api); ordinal < count; ++ordinal) {
    int device = 0;
    check(api, api.cuDeviceGet(&device, ordinal), "open the device");
    facts.devices.push_back(device_facts(api, device));
  }
  return facts;
}

Device::Device(int ordinal) : api_(load_driver()) {
  const int count = device_count(api_);
  if (ordinal >= count) {
    throw Failure(kNotFound, fmt::format("there is no device {}: the CUDA driver has {}", ordinal, count));
  }
  check(api_.cuDeviceGet(&handle_, ordinal), "open the device");
  const DeviceFacts facts = device_facts(api_, handle_);
  name_ = facts.name;
  architecture_ = facts.architecture;
  check(api_.cuDevicePrimaryCtxRetain(&context_, handle_), "make a context on the device");
  enter();
  // A blocking stream, which is ordered with copies on the default stream.
  check(api_.cuStreamCreate(&stream_, 0), "make a stream");
}

void Device::check(Result result, const std::string& doing) const { gpu::check(api_, result, doing); }

size_t Device::free_memory() const {
  size_t free = 0, total = 0;
  check(api_.cuMemGetInfo_v2(&free, &total), "query the device's free memory");
  return free;
}

void Device::copy_in(const void* host, const Rows& rows, DevicePointer device) const {
  if (rows.bytes() == 0) return;
  Copy2d copy{};
  copy.from_type = kHost;
  copy.from_host = host;
  copy.from_pitch = rows.pitch;
  copy.to_type = kDevice;
  copy.to_device = device;
  copy.to_pitch = copy.width = rows.width;
  copy.height = rows.count;
  check(rows.count == 1 ? api_.cuMemcpyHtoDAsync_v2(device, host, rows.width, stream_)
                        : api_.cuMemcpy2DAsync_v2(&copy, stream_),
        "copy a tensor to the device");
}

void Device::copy_out(DevicePointer device, void* host, const Rows& rows) const {
  if (rows.bytes() == 0) return;
  Copy2d copy{};
  copy.from_type = kDevice;
  copy.from_device = device;
  copy.from_pitch = copy.width = rows.width;
  copy.to_type = kHost;
  copy.to_host = host;
  copy.to_pitch = rows.pitch;
  copy.height = rows.count;
  check(rows.count == 1 ? api_.cuMemcpyDtoHAsync_v2(host, device, rows.width, stream_)
                        : api_.cuMemcpy2DAsync_v2(&copy, stream_),
        "copy a result from the device");
}

Module Device::load(const void* image) const {
  Module module = nullptr;
  check(api_.cuModuleLoadData(&module, image), "load the machine code");
  return module;
}

Function Device::function(Module module, const char* name) const {
  Function found = nullptr;
  check(api_.cuModuleGetFunction(&found, module, name), fmt::format("find {} in the machine code", name));
  return found;
}

void Device::launch(Function function, unsigned blocks, unsigned threads, std::span<void* const> parameters,
                    unsigned shared_bytes) const {
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream_, nullptr, 0};
  check(api_.cuLaunchKernelEx(&config, function, const_cast<void**>(parameters.data()), nullptr), "launch");
}

int Device::attribute(int number) const {
  int value = 0;
  check(api_.cuDeviceGetAttribute(&value, number, handle_), fmt::format("query the device's attribute {}", number));
  return value;
}

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) {
  if (bytes == 0) return;
  device.check(device.api().cuMemAlloc_v2(&address_, bytes), fmt::format("allocate {} bytes on the device", bytes));
  device_ = &device;
}

DeviceMemory::~DeviceMemory() {
  if (device_ != nullptr) device_->api().cuMemFree_v2(address_);
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : device_(device) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
  device.check(device.api().cuMemHostAlloc(&address_, bytes, kPortable), fmt::format("pin {} bytes", bytes));
}

PinnedMemory::~PinnedMemory() { device_.api().cuMemFreeHost(address_); }

Timestamp::Timestamp(const Device& device) : device_(device) {
  device.check(device.api().cuEventCreate(&event_, 0), "make an event");
}

Timestamp::~Timestamp() {
  if (event_ != nullptr) device_.api().cuEventDestroy_v2(event_);
}

double Timestamp::milliseconds_since(const Timestamp& earlier) const {
  float milliseconds = 0;
  device_.check(device_.api().cuEventElapsedTime(&milliseconds, earlier.event_, event_), "read the time of a launch");
  return static_cast<double>(milliseconds);
}

}  // namespace msda::replay::gpu
