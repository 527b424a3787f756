// A GPU through the CUDA driver, which is loaded at run time if the machine has one: the tool builds without CUDA and
// links nothing of it. Names, signatures and layouts are those of cuda.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msda::replay::gpu {

using Result = int;
using DevicePointer = unsigned long long;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;

// An error of the driver. After some errors, such as a kernel's invalid access, every further call fails.
struct Failure : std::runtime_error {
  Failure(Result error, const std::string& message) : std::runtime_error(message), result(error) {}
  Result result;
};
inline constexpr Result kOutOfMemory = 2, kNoBinaryForGpu = 209;

struct LaunchAttribute {  // CUlaunchAttribute
  int id = 0;
  char padding[4] = {};
  std::array<unsigned int, 16> numbers{};
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  unsigned int grid[3], block[3], shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned int attribute_count;
};
static_assert(offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56);

struct Copy2d {  // CUDA_MEMCPY2D; of the types, 1 is memory of the host and 2 of the device
  size_t from_x, from_y;
  unsigned int from_type;
  const void* from_host;
  DevicePointer from_device;
  void* from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  unsigned int to_type;
  void* to_host;
  DevicePointer to_device;
  void* to_array;
  size_t to_pitch;
  size_t width, height;
};
static_assert(sizeof(Copy2d) == 128);

// The driver functions used, each under the exact name that libcuda.so.1 exports.
struct Api {
  Result (*cuInit)(unsigned);
  Result (*cuDriverGetVersion)(int*);
  Result (*cuGetErrorString)(Result, const char**);
  Result (*cuDeviceGetCount)(int*);
  Result (*cuDeviceGet)(int*, int);
  Result (*cuDeviceGetName)(char*, int, int);
  Result (*cuDeviceGetAttribute)(int*, int, int);
  Result (*cuDevicePrimaryCtxRetain)(Context*, int);
  Result (*cuCtxSetCurrent)(Context);
  Result (*cuMemGetInfo_v2)(size_t*, size_t*);
  Result (*cuMemAlloc_v2)(DevicePointer*, size_t);
  Result (*cuMemFree_v2)(DevicePointer);
  Result (*cuMemHostAlloc)(void**, size_t, unsigned);
  Result (*cuMemFreeHost)(void*);
  Result (*cuMemcpyHtoD_v2)(DevicePointer, const void*, size_t);
  Result (*cuMemcpyDtoH_v2)(void*, DevicePointer, size_t);
  Result (*cuMemcpyHtoDAsync_v2)(DevicePointer, const void*, size_t, Stream);
  Result (*cuMemcpyDtoHAsync_v2)(void*, DevicePointer, size_t, Stream);
  Result (*cuMemcpy2DAsync_v2)(const Copy2d*, Stream);
  Result (*cuMemcpyDtoDAsync_v2)(DevicePointer, DevicePointer, size_t, Stream);
  Result (*cuMemsetD8_v2)(DevicePointer, unsigned char, size_t);
  Result (*cuStreamCreate)(Stream*, unsigned);
  Result (*cuStreamSynchronize)(Stream);
  Result (*cuEventCreate)(Event*, unsigned);
  Result (*cuEventDestroy_v2)(Event);
  Result (*cuEventRecord)(Event, Stream);
  Result (*cuEventElapsedTime)(float*, Event, Event);
  Result (*cuModuleLoadData)(Module*, const void*);
  Result (*cuModuleGetFunction)(Function*, Module, const char*);
  Result (*cuFuncGetAttribute)(int*, int, Function);
  Result (*cuFuncSetAttribute)(Function, int, int);
  Result (*cuFuncGetParamInfo)(Function, size_t, size_t*, size_t*);
  Result (*cuLaunchKernelEx)(const LaunchConfig*, Function, void**, void**);
};

// Rows of bytes in host memory, with a pitch.
struct Rows {
  size_t count, width, pitch;
  size_t bytes() const { return count * width; }
};

// What the driver says of itself and of the machine, without making a context.
struct DeviceFacts {
  std::string name;
  int architecture = 0;  // 90 for sm_90
};
struct DriverFacts {
  int version = 0;  // of CUDA, 13000 for 13.0
  std::vector<DeviceFacts> devices;
};
// Throws Failure if there is no driver, one that is too old, or one that does not start.
DriverFacts driver_facts();

// A device, its primary context made current in this thread, and a stream. Lives as long as the program.
class Device {
 public:
  // Throws Failure if there is no driver, a driver that is too old, or no such device.
  explicit Device(int ordinal);

  const std::string& name() const { return name_; }
  // Makes the context current in this thread, if another thread opened the device.
  void enter() const { check(api_.cuCtxSetCurrent(context_), "enter the device's context"); }
  size_t free_memory() const;
  int architecture() const { return architecture_; }  // 90 for sm_90
  Stream stream() const { return stream_; }
  const Api& api() const { return api_; }

  // Throws Failure, "cannot DOING: out of memory (CUDA error 2)", unless the result is a success.
  void check(Result result, const std::string& doing) const;
  // Waits for all work on the stream.
  void wait() const { check(api_.cuStreamSynchronize(stream_), "finish what was launched"); }
  // Enqueued on the stream; on the device the rows are contiguous.
  void copy_in(const void* host, const Rows& rows, DevicePointer device) const;
  void copy_out(DevicePointer device, void* host, const Rows& rows) const;
  Module load(const void* image) const;
  Function function(Module module, const char* name) const;
  void launch(Function function, unsigned blocks, unsigned threads, std::span<void* const> parameters,
              unsigned shared_bytes = 0) const;
  int attribute(int number) const;  // a CUdevice_attribute

 private:
  Api api_{};
  std::string name_;
  int architecture_ = 0;
  int handle_ = 0;  // CUdevice
  Context context_ = nullptr;
  Stream stream_ = nullptr;
};

// Device memory, or pinned host memory. 0 `bytes` allocate nothing.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Device& device, size_t bytes);
  DeviceMemory(DeviceMemory&& source) noexcept { *this = std::move(source); }
  DeviceMemory& operator=(DeviceMemory&& source) noexcept {
    std::swap(device_, source.device_);
    std::swap(address_, source.address_);
    return *this;
  }
  ~DeviceMemory();
  DevicePointer address() const { return address_; }

 private:
  const Device* device_ = nullptr;
  DevicePointer address_ = 0;
};

class PinnedMemory {
 public:
  PinnedMemory(const Device& device, size_t bytes);
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();
  void* address() const { return address_; }  // also for the device

 private:
  const Device& device_;
  void* address_ = nullptr;
};

// A timing event.
class Timestamp {
 public:
  explicit Timestamp(const Device& device);
  Timestamp(Timestamp&& source) noexcept : device_(source.device_), event_(std::exchange(source.event_, nullptr)) {}
  ~Timestamp();
  void record() const { device_.check(device_.api().cuEventRecord(event_, device_.stream()), "record an event"); }
  double milliseconds_since(const Timestamp& earlier) const;  // both events must have completed

 private:
  const Device& device_;
  Event event_ = nullptr;
};

}  // namespace msda::replay::gpu
