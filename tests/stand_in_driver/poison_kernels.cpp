#include "tests/stand_in_driver/poison_kernels.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

struct Call {
  size_t count;
  const float* x;
  float *y, *scratch;
};

// What the multiprocessors' shared memory holds from one kernel to the next.
constexpr size_t kSharedWords = 58112;  // 227 KB
float* shared_memory() {
  static float memory[kSharedWords];
  return memory;
}

std::mt19937& generator() {
  static std::mt19937 random{std::random_device{}()};
  return random;
}

// The threads of a launch, in the order in which the machine happens to run them.
std::vector<size_t> threads(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::shuffle(order, generator());
  return order;
}

template <void (*run)(const Call&)>
CUresult kernel(const std::byte* bytes) {
  Arguments arguments(bytes);
  Call call{};
  call.count = static_cast<size_t>(arguments.next<int>());
  call.x = arguments.next<const float*>();
  call.y = arguments.next<float*>();
  call.scratch = arguments.next<float*>();
  for (const void* pointer :
       {static_cast<const void*>(call.x), static_cast<const void*>(call.y), static_cast<const void*>(call.scratch)}) {
    if (!allocated(reinterpret_cast<uintptr_t>(pointer), call.count * sizeof(float))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  run(call);
  return CUDA_SUCCESS;
}

// Without a barrier between: each thread writes its number to shared memory and reads its neighbour's, which may not be
// there yet.
void race(const Call& call) {
  float* const shared = shared_memory();
  std::fill(shared, shared + call.count, 0.f);
  for (const size_t i : threads(call.count)) {
    shared[i] = call.x[i];
    call.y[i] = call.x[i] + shared[(i + 1) % call.count];
  }
}

// y = x + beta * y with a beta of 0, which NaN survives.
void reads_output(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) call.y[i] = call.x[i] + 0.f * call.y[i];
}

// The last quarter of the scratch memory is never written.
void reads_scratch(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) {
    if (i < call.count - call.count / 4) call.scratch[i] = 2 * call.x[i];
  }
  for (size_t i = 0; i < call.count; ++i) call.y[i] = call.scratch[call.count - 1 - i];
}

void reads_shared(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) call.y[i] = call.x[i] + shared_memory()[i];
}

// Behind its own x.
void reads_beside(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) call.y[i] = call.x[i] + call.x[i + 1];
}

// Atomic additions to four elements.
void order_only(const Call& call) {
  for (const size_t i : threads(call.count)) call.y[i % 4] += call.x[i];
}

// Atomic additions in scratch memory, which the last block writes out.
void last_block(const Call& call) {
  std::fill(call.scratch, call.scratch + 4, 0.f);
  for (const size_t i : threads(call.count)) call.scratch[i % 4] += call.x[i];
  for (size_t i = 0; i < call.count; ++i) call.y[i] = call.scratch[i % 4];
}

// Several threads add without atomics: some additions are lost.
void lost_updates(const Call& call) {
  for (const size_t i : threads(call.count)) {
    if (generator()() % 4 != 0) call.y[i % 4] += call.x[i];
  }
}

// Adds to what was there, in a fixed order.
void adds(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) call.y[i] += call.x[i];
}

// Writes scratch and shared memory before it reads them, and every second element of y not at all.
void none(const Call& call) {
  for (size_t i = 0; i < call.count; ++i) shared_memory()[i] = call.scratch[i] = 2 * call.x[i];
  for (size_t i = 0; i < call.count; i += 2) call.y[i] = shared_memory()[i] + call.scratch[i];
}

// Takes an address from memory that nobody wrote.
CUresult faults(const std::byte* bytes) {
  Arguments arguments(bytes);
  arguments.next<int>();
  const float* const x = arguments.next<const float*>();
  float* const y = arguments.next<float*>();
  const float* const scratch = arguments.next<const float*>();
  uint32_t index = 0;
  std::memcpy(&index, scratch, sizeof index);
  const auto at = reinterpret_cast<uintptr_t>(x) + uint64_t{index} * sizeof(float);
  if (!allocated(at, sizeof(float))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  y[0] = *reinterpret_cast<const float*>(at);
  return CUDA_SUCCESS;
}

// Waits for a lock in memory that nobody wrote.
void hangs(const Call& call) {
  while (call.scratch[0] != call.scratch[0]) std::this_thread::sleep_for(std::chrono::seconds(1));
  std::copy(call.x, call.x + call.count, call.y);
}

CUresult fill_shared(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto word = arguments.next<uint32_t>(), size = arguments.next<uint32_t>();
  if (size > kSharedWords * sizeof(float)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (size_t i = 0; i < size / sizeof word; ++i) std::memcpy(shared_memory() + i, &word, sizeof word);
  return CUDA_SUCCESS;
}

}  // namespace

const std::vector<KernelCode>& poison_kernels() {
  static const std::vector<KernelCode> kernels = [] {
    const std::vector<Parameter> layout{{0, 4}, {8, 8}, {16, 8}, {24, 8}};
    std::vector<KernelCode> all{{"msda_replay_fill_shared", {{0, 4}, {4, 4}}, fill_shared}};
    const auto add = [&](const char* which, CUresult (*run)(const std::byte*)) {
      all.push_back({poison_kernel_name(which), layout, run});
    };
    add("race", kernel<race>);
    add("reads_output", kernel<reads_output>);
    add("reads_scratch", kernel<reads_scratch>);
    add("reads_shared", kernel<reads_shared>);
    add("reads_beside", kernel<reads_beside>);
    add("order_only", kernel<order_only>);
    add("last_block", kernel<last_block>);
    add("lost_updates", kernel<lost_updates>);
    add("adds", kernel<adds>);
    add("none", kernel<none>);
    add("faults", faults);
    add("hangs", kernel<hangs>);
    return all;
  }();
  return kernels;
}

}  // namespace msda::stand_in
