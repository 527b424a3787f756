#include "recorder/preload/launch/known_launch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "kernels/names.h"
#include "recorder/device/cubin.h"
#include "recorder/preload/driver/element_type.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/functions.h"

namespace msda::record {
namespace {

std::vector<DeviceRange> ranges_of(const adapters::Call& call) {
  std::vector<DeviceRange> ranges;
  for (const Tensors* tensors : {&call.inputs, &call.outputs}) {
    for (const auto& tensor : *tensors) ranges.push_back({tensor.address, static_cast<uint64_t>(tensor.bytes())});
  }
  return ranges;
}

std::vector<size_t> tables_among(std::span<const DeviceRange> inputs, const std::vector<DeviceRange>& read) {
  std::vector<size_t> tables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (overlap(inputs.subspan(i, 1), read)) tables.push_back(i);
  }
  return tables;
}

// Returns the name of the first tensor that does not lie in allocated memory from end to end; empty if there is none.
std::string stray(const adapters::Call& call) {
  for (const Tensors* tensors : {&call.inputs, &call.outputs}) {
    for (const auto& tensor : *tensors) {
      if (!cuda::is_allocated(tensor.address, static_cast<uint64_t>(tensor.bytes()))) return tensor.name;
    }
  }
  return "";
}

// Guesses the type from the machine code, and caches it: a program that reallocates its tensors for each launch has
// each launch decoded.
msda_dtype float_type_of(const Image& image, const std::string& kernel) {
  static thread_local auto* known = new std::map<std::string, msda_dtype>;
  constexpr size_t kMost = 256;
  if (known->size() > kMost) known->clear();
  const auto [found, is_new] = known->try_emplace(image.digest + kernel, MSDA_FLOAT32);
  if (is_new) found->second = element_type_of(code_of(image.bytes, kernel));
  return found->second;
}

}  // namespace

bool KnownLaunch::same_tables(const Digests& digests) {
  Digest now;
  for (const size_t table : tables) {
    now.first += digests[table].first;
    now.second += digests[table].second;
  }
  const std::lock_guard lock(mutex_);
  if (!digest_of_tables_) digest_of_tables_ = now;
  return *digest_of_tables_ == now;
}

std::shared_ptr<const LastContent> KnownLaunch::last() {
  const std::lock_guard lock(mutex_);
  return last_;
}

void KnownLaunch::set_last(LastContent content) {
  auto shared = std::make_shared<const LastContent>(std::move(content));
  const std::lock_guard lock(mutex_);
  repeats_ = shared->repeats;
  last_.swap(shared);
}

std::string content_key(const KnownLaunch& known, const std::string& label, const Digests& digests) {
  const adapters::Call& call = known.call;
  std::string key = label + "\n" + known.name;
  if (call.padding) key += std::string(" ") + kernels::name_of(*call.padding);
  if (call.align_corners) key += *call.align_corners ? " align" : " no align";
  for_each_type(call.facts, [&](const auto& values) {
    for (const auto& [name, value] : values) key += "\n" + name + "=" + tensors::fact_text(value);
  });
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& tensor = call.inputs[i];
    key += "\n" + tensor.name + " " + kernels::name_of(tensor.type) + " " + in_hex(digests[i]);
    for (const int64_t side : tensor.shape) key += " " + std::to_string(side);
    key += " by";
    for (const int64_t stride : tensor.strides) key += " " + std::to_string(stride);
  }
  return key;
}

std::string joined_digests(const Digests& digests, size_t first, size_t count) {
  std::string words;
  for (size_t i = first; i < first + count; ++i) words += in_hex(digests[i]) + " ";
  return words;
}

bool wait_for(const Digests& digests, cuda::Stream stream) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!digests.ready()) {
    const auto waited = Clock::now() - begin;
    if (waited < std::chrono::microseconds(300)) continue;
    const cuda::Result state = cuda::driver().query(stream);
    if ((state != cuda::kSuccess && state != cuda::kNotReady) || waited > std::chrono::seconds(10)) {
      return digests.ready();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

DecodedLaunch decode(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
                     adapters::Launch launch) {
  auto known = std::make_shared<KnownLaunch>();
  known->name = launch.kernel;
  std::vector<DeviceRange> ranges_read;
  const auto read = [&](uint64_t address, void* to, size_t size) {
    ranges_read.push_back({address, size});
    // When a digest is ready, the stream has finished its earlier work, and the copy does not wait.
    std::string failure;
    const DeviceRange first{address, 1};
    const Digests reached = Digester::instance().start({&first, 1}, launched.stream, failure);
    return reached && wait_for(reached, launched.stream) &&
           cuda::driver().copy_to_host(to, address, size, launched.stream) == cuda::kSuccess &&
           cuda::driver().synchronize(launched.stream) == cuda::kSuccess;
  };
  const auto image = known->image = image_of(launched.function, is_kernel);
  launch.float_type = image ? float_type_of(*image, launch.kernel) : MSDA_FLOAT32;
  adapters::Decoded decoded = adapter.decode(launch, read);
  if (const auto* refusal = std::get_if<adapters::Refusal>(&decoded)) {
    Functions::instance().refuse(launch.kernel, refusal->reason);
    return {nullptr, !refusal->of_this_launch};
  }
  known->call = std::get<adapters::Call>(std::move(decoded));
  if (const std::string name = stray(known->call); !name.empty()) {
    Functions::instance().refuse(launch.kernel, name + " does not lie in device memory from end to end");
    return {nullptr, !known->call.reads_data};
  }
  known->ranges = ranges_of(known->call);
  known->tables = tables_among(known->inputs(), ranges_read);
  known->inputs_stay = !overlap(known->inputs(), known->outputs());
  known->code = std::to_string(reinterpret_cast<uintptr_t>(launched.function));
  known->launch = std::move(launch);
  return {std::move(known)};
}

}  // namespace msda::record
