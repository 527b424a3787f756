// A GPU through the CUDA driver, which is loaded at run time if the machine has one: the tool builds without CUDA and
// links nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "recorder/device/cuda_driver.h"

namespace msda::replay::gpu {

using namespace msda::cuda;

// An error of the driver. After some errors, such as a kernel's invalid access, every further call fails.
struct Failure : std::runtime_error {
  Failure(Result error, const std::string& message) : std::runtime_error(message), result(error) {}
  Result result;
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
  void enter() const { check(driver_.set_context(context_), "enter the device's context"); }
  size_t free_memory() const;
  int architecture() const { return architecture_; }  // 90 for sm_90
  Stream stream() const { return stream_; }
  const Driver& driver() const { return driver_; }

  // Throws Failure, "cannot DOING: out of memory (CUDA error 2)", unless the result is a success.
  void check(Result result, const std::string& doing) const;
  // Waits for all work on the stream.
  void wait() const { check(driver_.synchronize(stream_), "finish what was launched"); }
  // Enqueued on the stream; on the device the rows are contiguous.
  void copy_in(const void* host, const Rows& rows, DevicePointer device) const;
  void copy_out(DevicePointer device, void* host, const Rows& rows) const;
  Module load(const void* image) const;
  Function function(Module module, const char* name) const;
  void launch(Function function, unsigned blocks, unsigned threads, std::span<void* const> parameters,
              unsigned shared_bytes = 0) const;
  int attribute(int number) const;  // a CUdevice_attribute

 private:
  Driver driver_{};
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
  void record() const { device_.check(device_.driver().record_event(event_, device_.stream()), "record an event"); }
  double milliseconds_since(const Timestamp& earlier) const;  // both events must have completed

 private:
  const Device& device_;
  Event event_ = nullptr;
};

}  // namespace msda::replay::gpu
