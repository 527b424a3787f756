#include "replay/gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

namespace msda::replay::gpu {
namespace {

constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

Driver load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure(kNotFound, "this machine has no CUDA driver (libcuda.so.1)");
  // Uses dlsym, not cuGetProcAddress, whose result for a name depends on the requested version.
  const Driver driver = find_functions(kReplay, [&](const char* name) { return dlsym(library, name); });
  if (driver.missing != nullptr) {
    throw Failure(kNotFound, fmt::format("the CUDA driver lacks {}; it is older than CUDA 12.4", driver.missing));
  }
  return driver;
}

void check(const Driver& driver, Result result, const std::string& doing) {
  if (result == 0) return;
  const char* text = nullptr;
  if (driver.error_text(result, &text) != 0 || text == nullptr) text = "unknown error";
  throw Failure(result, fmt::format("cannot {}: {} (CUDA error {})", doing, text, result));
}

int device_count(const Driver& driver) {
  int count = 0;
  check(driver, driver.initialize(0), "start the CUDA driver");
  check(driver, driver.count_devices(&count), "count the devices");
  return count;
}

DeviceFacts device_facts(const Driver& driver, int device) {
  char name[256] = {};
  int major = 0, minor = 0;
  check(driver, driver.device_name(name, sizeof name - 1, device), "query the device's name");
  check(driver, driver.device_attribute(&major, kMajor, device), "query the device's architecture");
  check(driver, driver.device_attribute(&minor, kMinor, device), "query the device's architecture");
  return {name, 10 * major + minor};
}

}  // namespace

DriverFacts driver_facts() {
  const Driver driver = load_driver();
  const Result started = driver.initialize(0);
  DriverFacts facts;
  check(driver, driver.driver_version(&facts.version), "query the driver's version");
  if (started == kNoDevice) return facts;
  for (int ordinal = 0, count = device_count(driver); ordinal < count; ++ordinal) {
    int device = 0;
    check(driver, driver.device_handle(&device, ordinal), "open the device");
    facts.devices.push_back(device_facts(driver, device));
  }
  return facts;
}

Device::Device(int ordinal) : driver_(load_driver()) {
  const int count = device_count(driver_);
  if (ordinal >= count) {
    throw Failure(kNotFound, fmt::format("there is no device {}: the CUDA driver has {}", ordinal, count));
  }
  check(driver_.device_handle(&handle_, ordinal), "open the device");
  const DeviceFacts facts = device_facts(driver_, handle_);
  name_ = facts.name;
  architecture_ = facts.architecture;
  check(driver_.retain_primary_context(&context_, handle_), "make a context on the device");
  enter();
  // A blocking stream, which is ordered with copies on the default stream.
  check(driver_.create_stream(&stream_, 0), "make a stream");
}

void Device::check(Result result, const std::string& doing) const { gpu::check(driver_, result, doing); }

size_t Device::free_memory() const {
  size_t free = 0, total = 0;
  check(driver_.memory_info(&free, &total), "query the device's free memory");
  return free;
}

void Device::copy_in(const void* host, const Rows& rows, DevicePointer device) const {
  if (rows.bytes() == 0) return;
  const CopyOfRows copy{.from = {.type = MemoryType::kHost, .host = const_cast<void*>(host), .pitch = rows.pitch},
                        .to = {.type = MemoryType::kDevice, .device = device, .pitch = rows.width},
                        .width = rows.width,
                        .height = rows.count};
  check(rows.count == 1 ? driver_.copy_to_device(device, host, rows.width, stream_) : driver_.copy_rows(&copy, stream_),
        "copy a tensor to the device");
}

void Device::copy_out(DevicePointer device, void* host, const Rows& rows) const {
  if (rows.bytes() == 0) return;
  const CopyOfRows copy{.from = {.type = MemoryType::kDevice, .device = device, .pitch = rows.width},
                        .to = {.type = MemoryType::kHost, .host = host, .pitch = rows.pitch},
                        .width = rows.width,
                        .height = rows.count};
  check(rows.count == 1 ? driver_.copy_to_host(host, device, rows.width, stream_) : driver_.copy_rows(&copy, stream_),
        "copy a result from the device");
}

Module Device::load(const void* image) const {
  Module module = nullptr;
  check(driver_.module_load(&module, image), "load the machine code");
  return module;
}

Function Device::function(Module module, const char* name) const {
  Function found = nullptr;
  check(driver_.module_function(&found, module, name), fmt::format("find {} in the machine code", name));
  return found;
}

void Device::launch(Function function, unsigned blocks, unsigned threads, std::span<void* const> parameters,
                    unsigned shared_bytes) const {
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream_, nullptr, 0};
  check(driver_.launch_ex(&config, function, const_cast<void**>(parameters.data()), nullptr), "launch");
}

int Device::attribute(int number) const {
  int value = 0;
  check(driver_.device_attribute(&value, number, handle_), fmt::format("query the device's attribute {}", number));
  return value;
}

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) {
  if (bytes == 0) return;
  device.check(device.driver().allocate(&address_, bytes), fmt::format("allocate {} bytes on the device", bytes));
  device_ = &device;
}

DeviceMemory::~DeviceMemory() {
  if (device_ != nullptr) device_->driver().free(address_);
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : device_(device) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
  device.check(device.driver().host_allocate(&address_, bytes, kPortable), fmt::format("pin {} bytes", bytes));
}

PinnedMemory::~PinnedMemory() { device_.driver().host_free(address_); }

Timestamp::Timestamp(const Device& device) : device_(device) {
  device.check(device.driver().create_event(&event_, 0), "make an event");
}

Timestamp::~Timestamp() {
  if (event_ != nullptr) device_.driver().destroy_event(event_);
}

double Timestamp::milliseconds_since(const Timestamp& earlier) const {
  float milliseconds = 0;
  device_.check(device_.driver().elapsed_time(&milliseconds, earlier.event_, event_), "read the time of a launch");
  return static_cast<double>(milliseconds);
}

}  // namespace msda::replay::gpu
