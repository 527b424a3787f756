// A recorded launch on a device: its memory, laid out as it was in the recorded process, and the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/gpu/driver.h"
#include "replay/original/relaunch.h"

namespace msda::replay {

class DeviceLaunch {
 public:
  // Keeps references to all arguments. Allocates nothing yet. Throws CannotRelaunch if the code is not the plan's.
  DeviceLaunch(const gpu::Device& device, gpu::Function function, const Relaunch& plan,
               const capture::IsolatedReader& reader);

  // An output on the device, and what it holds before a launch.
  struct Output {
    const Buffer* buffer;
    gpu::DevicePointer address;
    gpu::DeviceMemory before;
  };

  // Allocates the memory and fills it with what was recorded; scratch memory, and what lies beside the tensors, with
  // zeros. Throws gpu::Failure or CannotRelaunch.
  void build();
  const std::vector<Output>& outputs() const { return outputs_; }
  gpu::DevicePointer place_of(uint64_t recorded_address) const;
  // Returns the memory of the regions beside tensors and scratch, and 512 bytes behind each region.
  std::vector<std::pair<gpu::DevicePointer, uint64_t>> gaps() const;

  // Copies row-major bytes to the memory of a tensor, at its place or elsewhere; bytes between its elements are not
  // changed.
  void put(const Buffer& buffer, std::span<const std::byte> row_major, gpu::DevicePointer to) const;
  void put(const Buffer& buffer, const capture::TensorInfo& info) const;
  // Returns the row-major bytes of memory that is laid out as the tensor's.
  std::vector<std::byte> row_major(const Buffer& buffer, gpu::DevicePointer from) const;

  // Lets an output's `before` hold what was recorded again.
  void restore(const Output& output) const;
  // Before launches, what nobody had written of the tensor holds this byte, until restore_all().
  void fill_unwritten(const Buffer& buffer, std::byte with) const;
  // Inputs, too: a kernel that takes an index from what it finds may have written anywhere.
  void restore_all() const;
  // Enqueue: what the outputs held before the launch, and zeros in scratch memory; and the launch.
  void reset() const;
  void launch() const;

 private:
  // Returns what a launch finds there: an output's `before`, which is copied to its place.
  gpu::DevicePointer before_of(const Buffer& buffer) const;
  void check_code() const;
  void allow_launch() const;

  const gpu::Device& device_;
  const gpu::Function function_;
  const Relaunch& plan_;
  const capture::IsolatedReader& reader_;
  std::vector<gpu::DeviceMemory> regions_;
  std::vector<gpu::DevicePointer> region_places_;  // where the recorded regions begin on this device
  std::vector<std::byte> parameters_;
  std::vector<Output> outputs_;
};

inline size_t size_of_element(const Buffer& buffer) {
  return static_cast<size_t>(kernels::bytes_of(buffer.before->type));
}

}  // namespace msda::replay
