#include "replay/original/device_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "recorder/tensors/tensor.h"

namespace msda::replay {
namespace {

using capture::TensorInfo;

constexpr uint64_t kPage =
    4096;  // addresses keep their offset within a page, so that a kernel's vector loads stay aligned
constexpr uint64_t kBehind = 512;  // kernels load whole vectors at a tensor's end

}  // namespace

DeviceLaunch::DeviceLaunch(const gpu::Device& device, gpu::Function function, const Relaunch& plan,
                           const capture::IsolatedReader& reader)
    : device_(device), function_(function), plan_(plan), reader_(reader) {
  check_code();
}

// The parameters are the recorded ones, so the code must have the same layout.
void DeviceLaunch::check_code() const {
  const auto& [bytes, offsets, sizes] = plan_.parameters;
  for (size_t i = 0; i <= offsets.size(); ++i) {
    size_t offset = 0, size = 0;
    const bool has = device_.driver().function_parameter(function_, i, &offset, &size) == 0;
    const bool same = i == offsets.size()
                          ? !has
                          : has && offset == static_cast<size_t>(offsets[i]) && size == static_cast<size_t>(sizes[i]);
    if (!same) refuse_relaunch("the parameters that its machine code takes are not those that were recorded");
  }
  constexpr int kMaxThreads = 0;  // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
  int most = 0;
  device_.check(device_.driver().function_attribute(&most, kMaxThreads, function_), "query the kernel's largest block");
  const auto& block = plan_.shape.block;
  if (uint64_t{block[0]} * block[1] * block[2] > static_cast<uint64_t>(most)) {
    refuse_relaunch("blocks of {} x {} x {} are more than the {} threads that it was compiled for", block[0], block[1],
                    block[2], most);
  }
}

// Sets the function attributes that the launch requires.
void DeviceLaunch::allow_launch() const {
  constexpr int kSharedBytes = 1, kMaxDynamicSharedBytes = 8, kNonPortableCluster = 14;  // CU_FUNC_ATTRIBUTE_*
  constexpr uint64_t kAlwaysAllowed = 48 << 10, kPortableCluster = 8;
  int statically = 0;
  device_.check(device_.driver().function_attribute(&statically, kSharedBytes, function_), "query its shared memory");
  if (uint64_t{plan_.shape.shared_bytes} + static_cast<uint64_t>(statically) > kAlwaysAllowed) {
    const auto bytes = static_cast<int>(plan_.shape.shared_bytes);
    device_.check(device_.driver().set_function_attribute(function_, kMaxDynamicSharedBytes, bytes),
                  fmt::format("reserve {} bytes of shared memory", bytes));
  }
  const auto& cluster = plan_.cluster;
  if (uint64_t{cluster[0]} * cluster[1] * cluster[2] > kPortableCluster) {
    device_.check(device_.driver().set_function_attribute(function_, kNonPortableCluster, 1),
                  "allow so large a cluster");
  }
}

gpu::DevicePointer DeviceLaunch::place_of(uint64_t recorded_address) const {
  const auto after = std::ranges::upper_bound(plan_.regions, recorded_address, {}, &Region::begin);
  const auto at = static_cast<size_t>(after - plan_.regions.begin()) - 1;
  return region_places_[at] + (recorded_address - plan_.regions[at].begin);
}

std::vector<std::pair<gpu::DevicePointer, uint64_t>> DeviceLaunch::gaps() const {
  std::vector<Region> taken;
  for (const Buffer& buffer : plan_.buffers) taken.push_back({buffer.address, buffer.address + buffer.bytes});
  for (const Scratch& scratch : plan_.scratch) taken.push_back({scratch.address, scratch.address + scratch.bytes});
  std::ranges::sort(taken, {}, &Region::begin);
  std::vector<std::pair<gpu::DevicePointer, uint64_t>> gaps;
  for (size_t i = 0; i < plan_.regions.size(); ++i) {
    const Region& region = plan_.regions[i];
    const auto add = [&](uint64_t begin, uint64_t end) {
      if (begin < end) gaps.emplace_back(region_places_[i] + (begin - region.begin), end - begin);
    };
    uint64_t free = region.begin;
    for (const Region& part : taken) {
      if (part.begin < region.begin || part.begin >= region.end) continue;
      add(free, part.begin);
      free = std::max(free, part.end);
    }
    add(free, region.end + kBehind);
  }
  return gaps;
}

void DeviceLaunch::put(const Buffer& buffer, std::span<const std::byte> row_major, gpu::DevicePointer to) const {
  const auto copy = [&](const std::byte* from) {
    device_.check(device_.driver().copy_to_device_now(to, from, buffer.bytes),
                  "copy " + buffer.name + " to the device");
  };
  if (buffer.strides.empty()) return copy(row_major.data());
  std::vector<std::byte> memory(buffer.bytes);
  device_.check(device_.driver().copy_to_host_now(memory.data(), to, buffer.bytes), "copy " + buffer.name);
  tensors::copy_from_row_major(row_major.data(), buffer.before->shape, buffer.strides,
                               kernels::bytes_of(buffer.before->type), memory.data());
  copy(memory.data());
}

void DeviceLaunch::put(const Buffer& buffer, const TensorInfo& info) const {
  const capture::Tensor tensor = reader_.read(info);
  put(buffer, {tensor.data.get(), static_cast<size_t>(info.bytes())}, place_of(buffer.address));
}

std::vector<std::byte> DeviceLaunch::row_major(const Buffer& buffer, gpu::DevicePointer from) const {
  std::vector<std::byte> memory(buffer.bytes);
  device_.check(device_.driver().copy_to_host_now(memory.data(), from, buffer.bytes), "copy " + buffer.name);
  if (buffer.strides.empty()) return memory;
  std::vector<std::byte> dense(static_cast<size_t>(buffer.before->bytes()));
  tensors::copy_row_major(memory.data(), buffer.before->shape, buffer.strides, kernels::bytes_of(buffer.before->type),
                          dense.data());
  return dense;
}

void DeviceLaunch::build() {
  for (const auto& [begin, end] : plan_.regions) {
    const uint64_t bytes = end - begin + kPage + kBehind;
    gpu::DeviceMemory& region = regions_.emplace_back(device_, bytes);
    device_.check(device_.driver().set_bytes_now(region.address(), 0, bytes), "clear memory");
    region_places_.push_back(region.address() + (begin - region.address()) % kPage);
  }
  for (const bool outputs : {false, true}) {
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.is_output == outputs) put(buffer, *buffer.before);
    }
  }
  parameters_ = plan_.parameters.bytes;
  for (const uint64_t offset : plan_.pointers) {
    uint64_t address = 0;
    std::memcpy(&address, parameters_.data() + offset, sizeof address);
    address = place_of(address);
    std::memcpy(parameters_.data() + offset, &address, sizeof address);
  }
  for (const Buffer& buffer : plan_.buffers) {
    if (!buffer.is_output) continue;
    Output output{&buffer, place_of(buffer.address), gpu::DeviceMemory(device_, buffer.bytes)};
    device_.check(
        device_.driver().copy_on_device(output.before.address(), output.address, buffer.bytes, device_.stream()),
        "keep " + buffer.name);
    outputs_.push_back(std::move(output));
  }
  allow_launch();
}

void DeviceLaunch::restore(const Output& output) const {
  const capture::Tensor tensor = reader_.read(*output.buffer->before);
  put(*output.buffer, {tensor.data.get(), static_cast<size_t>(tensor.info.bytes())}, output.before.address());
}

gpu::DevicePointer DeviceLaunch::before_of(const Buffer& buffer) const {
  const auto output = std::ranges::find(outputs_, &buffer, &Output::buffer);
  return output != outputs_.end() ? output->before.address() : place_of(buffer.address);
}

void DeviceLaunch::fill_unwritten(const Buffer& buffer, std::byte with) const {
  const capture::Tensor tensor = reader_.read(*buffer.before);
  const std::span bytes(tensor.data.get(), static_cast<size_t>(tensor.info.bytes()));
  for_each_run(buffer.unwritten,
               [&](uint64_t begin, uint64_t end) { std::ranges::fill(bytes.subspan(begin, end - begin), with); });
  put(buffer, bytes, before_of(buffer));
}

void DeviceLaunch::restore_all() const {
  for (const Buffer& buffer : plan_.buffers) {
    const capture::Tensor tensor = reader_.read(*buffer.before);
    put(buffer, {tensor.data.get(), static_cast<size_t>(tensor.info.bytes())}, before_of(buffer));
  }
}

void DeviceLaunch::reset() const {
  for (const Output& output : outputs_) {
    device_.check(device_.driver().copy_on_device(output.address, output.before.address(), output.buffer->bytes,
                                                  device_.stream()),
                  "reset " + output.buffer->name);
  }
  for (const Scratch& scratch : plan_.scratch) {
    device_.check(device_.driver().set_bytes_now(place_of(scratch.address), 0, scratch.bytes), "clear scratch memory");
  }
}

void DeviceLaunch::launch() const {
  std::vector<gpu::LaunchAttribute> attributes;
  constexpr int kClusterDimension = 4;  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
  if (plan_.cooperative) attributes.push_back(gpu::kCooperativeLaunch);
  if (plan_.cluster[0] > 0) {
    attributes.push_back({kClusterDimension, {}, {{plan_.cluster[0], plan_.cluster[1], plan_.cluster[2]}}});
  }
  const auto& [grid, block, shared_bytes] = plan_.shape;
  const gpu::LaunchConfig config{
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},          shared_bytes, device_.stream(),
      attributes.data(),           static_cast<unsigned>(attributes.size())};
  std::vector<void*> parameters;
  for (const int64_t offset : plan_.parameters.offsets) {
    parameters.push_back(const_cast<std::byte*>(parameters_.data()) + offset);
  }
  device_.check(device_.driver().launch_ex(&config, function_, parameters.data(), nullptr), "launch it");
}

}  // namespace msda::replay
