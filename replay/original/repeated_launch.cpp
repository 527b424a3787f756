#include "replay/original/repeated_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "analysis/numbers/tensor.h"
#include "recorder/capture/digest.h"

namespace msda::replay {
namespace {

double element_of(const OriginalTensor& tensor, const std::byte* data, int64_t flat) {
  return analysis::Tensor{data, tensor.type, {}}.at(flat);
}

}  // namespace

RepeatedLaunch::RepeatedLaunch(const gpu::Device& device, const Tools& tools, gpu::Function function,
                               const Relaunch& plan, const capture::IsolatedReader& reader)
    : device_(device),
      tools_(tools),
      plan_(plan),
      reader_(reader),
      on_device_(device, function, plan, reader),
      slots_(device, kBatch * kSlotBytes),
      sums_(device, record::kDigestSlotBytes) {
  const auto outputs = std::ranges::count_if(plan.buffers, &Buffer::is_output);
  if (outputs > static_cast<std::ptrdiff_t>(record::kMostDigestRanges)) {
    refuse_relaunch("it has {} outputs; at most {} can be examined", outputs, record::kMostDigestRanges);
  }
}

void RepeatedLaunch::build(bool repeats) {
  on_device_.build();
  for (const auto& output : on_device_.outputs()) {
    const size_t bytes = repeats ? output.buffer->bytes : 0;
    results_.push_back({gpu::DeviceMemory(device_, bytes), gpu::DeviceMemory(device_, bytes), {}, {}});
  }
  device_.check(device_.driver().set_bytes_now(sums_.address(), 0, record::kDigestSlotBytes), "clear memory");
  for (size_t i = 0; i < kBatch; ++i) {
    before_.emplace_back(device_);
    after_.emplace_back(device_);
  }
}

// Computes the digests of all outputs.
void RepeatedLaunch::digest(size_t slot) {
  uint64_t bytes = 0;
  for (const auto& output : on_device_.outputs()) bytes += output.buffer->bytes;
  record::DigestTable table(bytes);
  for (const auto& output : on_device_.outputs()) table.add(output.address, output.buffer->bytes);
  if (!table.launchable()) refuse_relaunch("its outputs are larger than any memory");
  auto* to = reinterpret_cast<uint64_t*>(static_cast<std::byte*>(slots_.address()) + slot * kSlotBytes);
  record::DigestTarget target{sums_.address(), to, ++sequence_, 0, 0, table.count()};
  const auto parameters = table.parameters(target);
  device_.launch(tools_.digest, static_cast<unsigned>(table.blocks()), record::kDigestThreads, parameters);
}

std::pair<uint64_t, uint64_t> RepeatedLaunch::digest_in(size_t slot, size_t output) const {
  uint64_t numbers[1 + 2 * record::kMostDigestRanges];
  std::memcpy(numbers, static_cast<const std::byte*>(slots_.address()) + slot * kSlotBytes, sizeof numbers);
  return {numbers[1 + 2 * output], numbers[2 + 2 * output]};
}

void RepeatedLaunch::add_extremes(size_t number) const {
  constexpr unsigned kThreads = 256;
  const DeviceLaunch::Output& output = on_device_.outputs()[number];
  unsigned bytes = static_cast<unsigned>(size_of_element(*output.buffer));
  unsigned is_float = kernels::is_float(output.buffer->before->type);
  uint64_t count = output.buffer->bytes / bytes;
  const uint64_t blocks = (count - 1) / kThreads + 1;
  if (blocks > std::numeric_limits<int32_t>::max())
    refuse_relaunch("{} is too large to be examined", output.buffer->name);
  gpu::DevicePointer from = output.address, lowest = results_[number].lowest.address(),
                     highest = results_[number].highest.address();
  void* const parameters[] = {&from, &lowest, &highest, &count, &bytes, &is_float};
  device_.launch(tools_.extremes, static_cast<unsigned>(blocks), kThreads, parameters);
}

// Enqueues a run; does not wait.
void RepeatedLaunch::run_once(size_t slot, bool is_first, bool repeats, const std::function<void()>& prepare) {
  on_device_.reset();
  if (prepare) prepare();
  before_[slot].record();
  on_device_.launch();
  after_[slot].record();
  digest(slot);
  if (!repeats) return;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!is_first) {
      add_extremes(i);
      continue;
    }
    const DeviceLaunch::Output& output = on_device_.outputs()[i];
    for (const auto* to : {&results_[i].lowest, &results_[i].highest}) {
      device_.check(
          device_.driver().copy_on_device(to->address(), output.address, output.buffer->bytes, device_.stream()),
          "keep " + output.buffer->name);
    }
  }
}

// Waits for `count` runs, in the first slots, and collects their results.
void RepeatedLaunch::take_batch(size_t count, std::vector<double>& milliseconds) {
  device_.wait();
  for (size_t slot = 0; slot < count; ++slot) {
    milliseconds.push_back(after_[slot].milliseconds_since(before_[slot]));
    for (size_t i = 0; i < results_.size(); ++i) results_[i].digests.insert(digest_in(slot, i));
  }
}

std::vector<RepeatedLaunch::Range> RepeatedLaunch::repeat(int64_t runs, const std::function<void()>& prepare) {
  for (Results& results : results_) results.digests.clear();
  std::vector<Range> ranges(results_.size());
  std::vector<double> milliseconds;
  run_once(0, true, true, prepare);
  take_batch(1, milliseconds);
  const auto read = [&](size_t i, gpu::DevicePointer from) {
    return on_device_.row_major(*on_device_.outputs()[i].buffer, from);
  };
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].first = read(i, on_device_.outputs()[i].address);
  for (int64_t done = 1; done < runs;) {
    const auto count = static_cast<size_t>(std::min<int64_t>(runs - done, kBatch));
    for (size_t slot = 0; slot < count; ++slot) run_once(slot, false, true, prepare);
    take_batch(count, milliseconds);
    done += static_cast<int64_t>(count);
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].distinct = static_cast<int64_t>(results_[i].digests.size());
    ranges[i].lowest = read(i, results_[i].lowest.address());
    ranges[i].highest = read(i, results_[i].highest.address());
  }
  return ranges;
}

void RepeatedLaunch::compare_with_recorded(size_t number, OriginalTensor& tensor) const {
  const DeviceLaunch::Output& output = on_device_.outputs()[number];
  if (output.buffer->recorded == nullptr) return;
  OriginalTensor::Recorded& recorded = tensor.recorded.emplace(OriginalTensor::Recorded{});
  recorded.among_them = results_[number].digests.contains(results_[number].recorded_digest);
  const capture::Tensor truth = reader_.read(*output.buffer->recorded);
  const size_t size = size_of_element(*output.buffer);
  const auto elements = static_cast<size_t>(truth.info.elements());
  for (size_t i = 0; i < elements; ++i) {
    if (std::memcmp(truth.data.get() + i * size, tensor.first.get() + i * size, size) == 0) continue;
    ++recorded.different;
    const auto at = static_cast<int64_t>(i);
    const double apart =
        std::abs(element_of(tensor, tensor.first.get(), at) - element_of(tensor, truth.data.get(), at));
    if (std::isfinite(apart)) recorded.max_abs = std::max(recorded.max_abs, apart);
  }
}

void RepeatedLaunch::set_spread(size_t number, OriginalTensor& tensor) const {
  constexpr size_t kMostListed = 10;
  const DeviceLaunch::Output& output = on_device_.outputs()[number];
  const Results& results = results_[number];
  tensor.distinct = static_cast<int64_t>(results.digests.size());
  if (tensor.distinct < 2) return;
  const auto lowest = on_device_.row_major(*output.buffer, results.lowest.address());
  const auto highest = on_device_.row_major(*output.buffer, results.highest.address());
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
    const OriginalTensor::Varying varying{at, element_of(tensor, lowest.data(), at),
                                          element_of(tensor, highest.data(), at)};
    if (tensor.widest.size() == kMostListed && !wider(varying, tensor.widest.back())) continue;
    tensor.widest.insert(std::ranges::upper_bound(tensor.widest, varying, wider), varying);
    if (tensor.widest.size() > kMostListed) tensor.widest.pop_back();
  }
  if (!tensor.widest.empty()) tensor.spread = width(tensor.widest.front());
}

OriginalResult RepeatedLaunch::run(int64_t runs, Clock::time_point begun,
                                   const std::function<void(const std::string&)>& report) {
  const auto seconds_since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  OriginalResult result{.device = device_.name(),
                        .kernel_digest = plan_.code.digest,
                        .architecture = device_.architecture(),
                        .shape = plan_.shape,
                        .changed = plan_.changed,
                        .runs = runs,
                        .tensors = {}};
  const bool repeats = runs > 1;
  build(repeats);
  // Puts the recorded outputs in place, to compute their digests.
  for (const auto& output : on_device_.outputs()) {
    if (output.buffer->recorded != nullptr) on_device_.put(*output.buffer, *output.buffer->recorded);
  }
  digest(0);
  device_.wait();
  for (size_t i = 0; i < results_.size(); ++i) results_[i].recorded_digest = digest_in(0, i);
  std::vector<double> milliseconds;
  run_once(0, true, repeats);
  take_batch(1, milliseconds);
  for (const auto& output : on_device_.outputs()) {
    OriginalTensor& tensor = result.tensors.emplace_back();
    static_cast<tensors::Description&>(tensor) = *output.buffer->before;
    const auto bytes = on_device_.row_major(*output.buffer, output.address);
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
  for (size_t i = 0; i < results_.size(); ++i) {
    compare_with_recorded(i, result.tensors[i]);
    set_spread(i, result.tensors[i]);
  }
  return result;
}

}  // namespace msda::replay
