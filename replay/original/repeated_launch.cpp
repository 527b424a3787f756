#include "replay/original/repeated_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "recorder/capture/digest.h"
#include "replay/original/strided.h"

namespace msda::replay {
namespace {

using capture::TensorInfo;

constexpr uint64_t kPage =
    4096;  // addresses keep their offset within a page, so that a kernel's vector loads stay aligned

size_t size_of_element(const Buffer& buffer) { return static_cast<size_t>(size_of(buffer.before->type)); }

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw CannotRelaunch(fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace

RepeatedLaunch::RepeatedLaunch(const gpu::Device& device, const Tools& tools, gpu::Function function,
                               const Relaunch& plan, const capture::IsolatedReader& reader)
    : device_(device),
      tools_(tools),
      function_(function),
      plan_(plan),
      reader_(reader),
      slots_(device, kBatch * record::kDigestSlotBytes),
      sums_(device, record::kDigestSlotBytes) {
  check_code();
  const auto outputs = std::ranges::count_if(plan.buffers, &Buffer::is_output);
  if (outputs > static_cast<std::ptrdiff_t>(record::kMostDigestRanges)) {
    refuse("it has {} outputs; at most {} can be examined", outputs, record::kMostDigestRanges);
  }
}

// The parameters are the recorded ones, so the code must have the same layout.
void RepeatedLaunch::check_code() const {
  const auto& [bytes, offsets, sizes] = plan_.parameters;
  for (size_t i = 0; i <= offsets.size(); ++i) {
    size_t offset = 0, size = 0;
    const bool has = device_.api().cuFuncGetParamInfo(function_, i, &offset, &size) == 0;
    const bool same = i == offsets.size()
                          ? !has
                          : has && offset == static_cast<size_t>(offsets[i]) && size == static_cast<size_t>(sizes[i]);
    if (!same) refuse("the parameters that its machine code takes are not those that were recorded");
  }
  constexpr int kMaxThreads = 0;  // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
  int most = 0;
  device_.check(device_.api().cuFuncGetAttribute(&most, kMaxThreads, function_), "query the kernel's largest block");
  const auto& block = plan_.shape.block;
  if (uint64_t{block[0]} * block[1] * block[2] > static_cast<uint64_t>(most)) {
    refuse("blocks of {} x {} x {} are more than the {} threads that it was compiled for", block[0], block[1], block[2],
           most);
  }
}

// Sets the function attributes that the launch requires.
void RepeatedLaunch::allow_launch() const {
  constexpr int kSharedBytes = 1, kMaxDynamicSharedBytes = 8, kNonPortableCluster = 14;  // CU_FUNC_ATTRIBUTE_*
  constexpr uint64_t kAlwaysAllowed = 48 << 10, kPortableCluster = 8;
  int statically = 0;
  device_.check(device_.api().cuFuncGetAttribute(&statically, kSharedBytes, function_), "query its shared memory");
  if (uint64_t{plan_.shape.shared_bytes} + static_cast<uint64_t>(statically) > kAlwaysAllowed) {
    const auto bytes = static_cast<int>(plan_.shape.shared_bytes);
    device_.check(device_.api().cuFuncSetAttribute(function_, kMaxDynamicSharedBytes, bytes),
                  fmt::format("reserve {} bytes of shared memory", bytes));
  }
  const auto& cluster = plan_.cluster;
  if (uint64_t{cluster[0]} * cluster[1] * cluster[2] > kPortableCluster) {
    device_.check(device_.api().cuFuncSetAttribute(function_, kNonPortableCluster, 1), "allow so large a cluster");
  }
}

gpu::DevicePointer RepeatedLaunch::place_of(uint64_t recorded_address) const {
  const auto after = std::ranges::upper_bound(plan_.regions, recorded_address, {}, &Region::begin);
  const auto at = static_cast<size_t>(after - plan_.regions.begin()) - 1;
  return region_places_[at] + (recorded_address - plan_.regions[at].begin);
}

// Copies the capture's row-major bytes to the tensor's place; bytes between its elements are not changed.
void RepeatedLaunch::put(const Buffer& buffer, const TensorInfo& info) const {
  const capture::Tensor tensor = reader_.read(info);
  const gpu::DevicePointer to = place_of(buffer.address);
  const auto copy = [&](const std::byte* from) {
    device_.check(device_.api().cuMemcpyHtoD_v2(to, from, buffer.bytes), "copy " + buffer.name + " to the device");
  };
  if (buffer.strides.empty()) return copy(tensor.data.get());
  std::vector<std::byte> memory(buffer.bytes);
  device_.check(device_.api().cuMemcpyDtoH_v2(memory.data(), to, buffer.bytes), "copy " + buffer.name);
  scatter(info.shape, buffer.strides, size_of_element(buffer), tensor.data.get(), memory.data());
  copy(memory.data());
}

void RepeatedLaunch::build_buffers(bool repeats) {
  constexpr uint64_t kBehind = 512;  // kernels load whole vectors at a tensor's end
  for (const auto& [begin, end] : plan_.regions) {
    const uint64_t bytes = end - begin + kPage + kBehind;
    gpu::DeviceMemory& region = regions_.emplace_back(device_, bytes);
    device_.check(device_.api().cuMemsetD8_v2(region.address(), 0, bytes), "clear memory");
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
    const size_t bytes = buffer.bytes, for_repeats = repeats ? bytes : 0;
    Output output{&buffer,
                  place_of(buffer.address),
                  gpu::DeviceMemory(device_, bytes),
                  gpu::DeviceMemory(device_, for_repeats),
                  gpu::DeviceMemory(device_, for_repeats),
                  {},
                  {}};
    device_.check(device_.api().cuMemcpyDtoDAsync_v2(output.before.address(), output.address, bytes, device_.stream()),
                  "keep " + buffer.name);
    outputs_.push_back(std::move(output));
  }
  device_.check(device_.api().cuMemsetD8_v2(sums_.address(), 0, record::kDigestSlotBytes), "clear memory");
  // Puts the recorded outputs in place, to compute their digests.
  for (const Output& output : outputs_) {
    if (output.buffer->recorded != nullptr) put(*output.buffer, *output.buffer->recorded);
  }
  digest(0);
  device_.wait();
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].recorded_digest = digest_in(0, i);
}

void RepeatedLaunch::reset() const {
  for (const Output& output : outputs_) {
    device_.check(device_.api().cuMemcpyDtoDAsync_v2(output.address, output.before.address(), output.buffer->bytes,
                                                     device_.stream()),
                  "reset " + output.buffer->name);
  }
}

void RepeatedLaunch::launch() const {
  std::vector<gpu::LaunchAttribute> attributes;
  constexpr int kCooperative = 2, kClusterDimension = 4;  // CU_LAUNCH_ATTRIBUTE_*
  if (plan_.cooperative) attributes.push_back({kCooperative, {}, {1}});
  if (plan_.cluster[0] > 0) {
    attributes.push_back({kClusterDimension, {}, {plan_.cluster[0], plan_.cluster[1], plan_.cluster[2]}});
  }
  const auto& [grid, block, shared_bytes] = plan_.shape;
  const gpu::LaunchConfig config{
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},          shared_bytes, device_.stream(),
      attributes.data(),           static_cast<unsigned>(attributes.size())};
  std::vector<void*> parameters;
  for (const int64_t offset : plan_.parameters.offsets) {
    parameters.push_back(const_cast<std::byte*>(parameters_.data()) + offset);
  }
  device_.check(device_.api().cuLaunchKernelEx(&config, function_, parameters.data(), nullptr), "launch it");
}

// Computes the digests of all outputs.
void RepeatedLaunch::digest(size_t slot) {
  uint64_t bytes = 0;
  for (const Output& output : outputs_) bytes += output.buffer->bytes;
  record::DigestTable table(bytes);
  for (const Output& output : outputs_) table.add(output.address, output.buffer->bytes);
  if (!table.launchable()) refuse("its outputs are larger than any memory");
  gpu::DevicePointer sums = sums_.address();
  auto* to = reinterpret_cast<uint64_t*>(static_cast<std::byte*>(slots_.address()) + slot * record::kDigestSlotBytes);
  uint64_t sequence = ++sequence_;
  const auto parameters = table.parameters(sums, to, sequence);
  device_.launch(tools_.digest, static_cast<unsigned>(table.blocks()), record::kDigestThreads, parameters);
}

std::pair<uint64_t, uint64_t> RepeatedLaunch::digest_in(size_t slot, size_t output) const {
  uint64_t numbers[1 + 2 * record::kMostDigestRanges];
  std::memcpy(numbers, static_cast<const std::byte*>(slots_.address()) + slot * record::kDigestSlotBytes,
              sizeof numbers);
  return {numbers[1 + 2 * output], numbers[2 + 2 * output]};
}

void RepeatedLaunch::add_extremes(const Output& output) const {
  constexpr unsigned kThreads = 256;
  unsigned bytes = static_cast<unsigned>(size_of_element(*output.buffer));
  unsigned is_float = capture::is_float(output.buffer->before->type);
  uint64_t count = output.buffer->bytes / bytes;
  const uint64_t blocks = (count - 1) / kThreads + 1;
  if (blocks > std::numeric_limits<int32_t>::max()) refuse("{} is too large to be examined", output.buffer->name);
  gpu::DevicePointer from = output.address, lowest = output.lowest.address(), highest = output.highest.address();
  void* const parameters[] = {&from, &lowest, &highest, &count, &bytes, &is_float};
  device_.launch(tools_.extremes, static_cast<unsigned>(blocks), kThreads, parameters);
}

// Enqueues a run; does not wait.
void RepeatedLaunch::run_once(size_t slot, bool is_first, bool repeats) {
  reset();
  before_[slot].record();
  launch();
  after_[slot].record();
  digest(slot);
  if (!repeats) return;
  for (const Output& output : outputs_) {
    if (!is_first) {
      add_extremes(output);
      continue;
    }
    for (const auto* to : {&output.lowest, &output.highest}) {
      device_.check(
          device_.api().cuMemcpyDtoDAsync_v2(to->address(), output.address, output.buffer->bytes, device_.stream()),
          "keep " + output.buffer->name);
    }
  }
}

// Waits for `count` runs, in the first slots, and collects their results.
void RepeatedLaunch::take_batch(size_t count, std::vector<double>& milliseconds) {
  device_.wait();
  for (size_t slot = 0; slot < count; ++slot) {
    milliseconds.push_back(after_[slot].milliseconds_since(before_[slot]));
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].digests.insert(digest_in(slot, i));
  }
}

std::vector<std::byte> RepeatedLaunch::row_major(const Buffer& buffer, gpu::DevicePointer from) const {
  std::vector<std::byte> memory(buffer.bytes);
  device_.check(device_.api().cuMemcpyDtoH_v2(memory.data(), from, buffer.bytes), "copy " + buffer.name);
  if (buffer.strides.empty()) return memory;
  std::vector<std::byte> dense(static_cast<size_t>(buffer.before->bytes()));
  gather(buffer.before->shape, buffer.strides, size_of_element(buffer), memory.data(), dense.data());
  return dense;
}

void RepeatedLaunch::compare_with_recorded(const Output& output, OriginalTensor& tensor) const {
  if (output.buffer->recorded == nullptr) return;
  OriginalTensor::Recorded& recorded = tensor.recorded.emplace(OriginalTensor::Recorded{});
  recorded.among_them = output.digests.contains(output.recorded_digest);
  const capture::Tensor truth = reader_.read(*output.buffer->recorded);
  const size_t size = size_of_element(*output.buffer);
  const auto elements = static_cast<size_t>(truth.info.elements());
  for (size_t i = 0; i < elements; ++i) {
    if (std::memcmp(truth.data.get() + i * size, tensor.first.get() + i * size, size) == 0) continue;
    ++recorded.different;
    const auto at = static_cast<int64_t>(i);
    const double apart =
        std::abs(element_of(tensor.type, tensor.first.get(), at) - element_of(tensor.type, truth.data.get(), at));
    if (std::isfinite(apart)) recorded.max_abs = std::max(recorded.max_abs, apart);
  }
}

void RepeatedLaunch::tell_spread(const Output& output, OriginalTensor& tensor) const {
  constexpr size_t kMostTold = 10;
  tensor.distinct = static_cast<int64_t>(output.digests.size());
  if (tensor.distinct < 2) return;
  const auto lowest = row_major(*output.buffer, output.lowest.address());
  const auto highest = row_major(*output.buffer, output.highest.address());
  const size_t size = size_of_element(*output.buffer);
  // NaN counts as the widest range and is listed first.
  const auto width = [](const OriginalTensor::Varying& v) {
    const double apart = v.highest - v.lowest;
    return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
  };
  const auto wider = [&](const auto& a, const auto& b) { return width(a) > width(b); };
  for (size_t i = 0; i < lowest.size() / size; ++i) {
    if (std::memcmp(lowest.data() + i * size, highest.data() + i * size, size) == 0) continue;
    ++tensor.varying;
    const auto at = static_cast<int64_t>(i);
    const OriginalTensor::Varying one{at, element_of(tensor.type, lowest.data(), at),
                                      element_of(tensor.type, highest.data(), at)};
    if (tensor.widest.size() == kMostTold && !wider(one, tensor.widest.back())) continue;
    tensor.widest.insert(std::ranges::upper_bound(tensor.widest, one, wider), one);
    if (tensor.widest.size() > kMostTold) tensor.widest.pop_back();
  }
  if (!tensor.widest.empty()) tensor.spread = width(tensor.widest.front());
}

OriginalResult RepeatedLaunch::run(int64_t runs, Clock::time_point begun,
                                   const std::function<void(const std::string&)>& report) {
  const auto seconds_since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  OriginalResult result{.device = device_.name(),
                        .kernel_digest = plan_.code->digest,
                        .architecture = device_.architecture(),
                        .shape = plan_.shape,
                        .changed = plan_.changed,
                        .runs = runs,
                        .tensors = {}};
  const bool repeats = runs > 1;
  allow_launch();
  build_buffers(repeats);
  for (size_t i = 0; i < std::min<size_t>(kBatch, static_cast<size_t>(runs)); ++i) {
    before_.emplace_back(device_);
    after_.emplace_back(device_);
  }
  std::vector<double> milliseconds;
  run_once(0, true, repeats);
  take_batch(1, milliseconds);
  for (const Output& output : outputs_) {
    const TensorInfo& info = *output.buffer->before;
    OriginalTensor& tensor = result.tensors.emplace_back();
    tensor.name = info.name;
    tensor.type = info.type;
    tensor.shape = info.shape;
    const auto bytes = row_major(*output.buffer, output.address);
    tensor.first = std::make_unique<std::byte[]>(bytes.size());
    std::ranges::copy(bytes, tensor.first.get());
    tensor.digest = capture::digest(bytes);
  }
  result.first_result_s = seconds_since(begun);

  const auto repeating = Clock::now();
  for (int64_t done = 1; done < runs;) {
    const auto count = static_cast<size_t>(std::min<int64_t>(runs - done, kBatch));
    for (size_t slot = 0; slot < count; ++slot) run_once(slot, false, repeats);
    take_batch(count, milliseconds);
    done += static_cast<int64_t>(count);
    report(fmt::format("original {}", done));
  }
  if (repeats) result.runs_per_s = static_cast<double>(runs - 1) / seconds_since(repeating);
  std::ranges::nth_element(milliseconds, milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2));
  result.launch_ms = milliseconds[milliseconds.size() / 2];
  for (size_t i = 0; i < outputs_.size(); ++i) {
    compare_with_recorded(outputs_[i], result.tensors[i]);
    tell_spread(outputs_[i], result.tensors[i]);
  }
  return result;
}

}  // namespace msda::replay
