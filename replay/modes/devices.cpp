#include "replay/modes/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "replay/base/errors.h"

namespace msda::replay {
namespace {

// Threads for each GPU: one copies and digests while the other computes.
constexpr uint64_t kShares = 2;

// Returns why the operator cannot run on any GPU, as libmsda says it; empty if it can.
std::string why_no_operator() {
  const int64_t none[MSDA_MAX_RANK] = {0, 0, 0, 0, 0, 2}, no_levels[] = {0, 2};
  msda_call call{};
  call.value = msda_contiguous(nullptr, MSDA_FLOAT32, 4, none);
  call.spatial_shapes = msda_contiguous(nullptr, MSDA_INT64, 2, no_levels);
  call.sampling_locations = msda_contiguous(nullptr, MSDA_FLOAT32, 6, none);
  call.attention_weights = msda_contiguous(nullptr, MSDA_FLOAT32, 5, none);
  const msda_tensor output = msda_contiguous(nullptr, MSDA_FLOAT32, 4, none);
  return msda_cuda_forward(&call, nullptr, &output, nullptr) == MSDA_OK ? "" : msda_last_error();
}

}  // namespace

Devices::Devices(const Options& options) : options_(options), choice_(chosen_device(options)) {}

void Devices::open(const std::string& where) {
  if (opened_) return;
  opened_ = true;
  if (choice_.wanted == DeviceChoice::kCpu) return;
  const auto add = [&](int gpu) {
    return gpus_.emplace_back(std::make_unique<GpuReplay>(gpu, options_.device_memory, kShares)).get();
  };
  std::string why;
  try {
    add(choice_.first)->open();  // its error says best what the machine lacks
    why = why_no_operator();
  } catch (const gpu::Failure& e) {
    why = e.what();
  }
  if (!why.empty()) {
    gpus_.clear();
    if (choice_.wanted == DeviceChoice::kIfPossible) return;
    throw Unavailable(fmt::format("{}: --device {}: {}; use --device cpu", where, options_.device, why));
  }
  // Every GPU once before any second time; each thread opens its own.
  const int end = choice_.all ? std::max(msda_cuda_device_count(), choice_.first + 1) : choice_.first + 1;
  for (uint64_t share = 0; share < kShares; ++share) {
    for (int gpu = choice_.first + (share == 0 ? 1 : 0); gpu < end; ++gpu) add(gpu);
  }
}

void Devices::for_each(size_t count, const std::string& where, const Job& job) {
  open(where);
  if (gpus_.empty()) {
    for (size_t i = 0; i < count; ++i) job(i, nullptr);
    return;
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failed;
  const auto work = [&](GpuReplay* gpu) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        job(i, gpu);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min(count, gpus_.size()); ++i) threads.emplace_back(work, gpus_[i].get());
  }
  if (failed) std::rethrow_exception(failed);
}

Devices::Ran Devices::run(const analysis::DeviceCall* on_gpu, const std::function<void()>& on_cpu, GpuReplay* gpu,
                          const std::string& what) {
  std::string why;
  if (gpu != nullptr) {
    try {
      if (on_gpu == nullptr) throw std::runtime_error("this operator has no kernels for a GPU");
      gpu->run(*on_gpu);
      return {fmt::format("cuda:{}", gpu->gpu()), ""};
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::runtime_error& e) {
      why = e.what();
    }
    if (choice_.wanted == DeviceChoice::kAsked) {
      throw Unavailable(
          fmt::format("{} on cuda:{}: {}; use --device cpu, or auto for what a GPU can", what, gpu->gpu(), why));
    }
  }
  const std::lock_guard lock(cpu_);
  on_cpu();
  return {"cpu", why};
}

}  // namespace msda::replay
