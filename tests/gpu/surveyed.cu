// Kernels of each verdict that a survey gives (docs/survey.md), of each instruction that has an order-free twin, and of
// each way to have none. A kernel's name begins with the verdict. Prints, to the last bit, what those without a name
// that reports variation compute, so that runs with and without a survey can be compared.
//
//     surveyed [--times N]
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string>
#include <vector>

#include "program.cuh"

namespace {

constexpr int kSums = 32, kCount = 1 << 18, kThreads = 256, kBlocks = kCount / kThreads;

__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace

// Additions that have a twin.

extern "C" __global__ void order_only_red_float(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], x[thread()]);
}
extern "C" __global__ void order_only_red_double(double* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], x[thread()] / 3.0);
}
extern "C" __global__ void order_only_red_half2(__half2* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], __floats2half2_rn(x[thread()] - 0.5f, 0.5f - x[thread()]));
}
extern "C" __global__ void order_only_red_bfloat162(__nv_bfloat162* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], __floats2bfloat162_rn(x[thread()] - 0.5f, 0.5f - x[thread()]));
}
// The result is used, but not for anything that is stored.
extern "C" __global__ void order_only_atom_float(float* sums, const float* x, int n) {
  if (thread() < n && atomicAdd(&sums[thread() % kSums], x[thread()]) == -1e30f) sums[thread() % kSums] = 0;
}
extern "C" __global__ void order_only_atom_double(double* sums, const float* x, int n) {
  if (thread() < n && atomicAdd(&sums[thread() % kSums], x[thread()] / 3.0) == -1e30) sums[thread() % kSums] = 0;
}
// The compiler does not know which memory the pointer means.
extern "C" __global__ void order_only_generic_float(float* sums, const float* x, int n, int none) {
  __shared__ float here[kSums];
  if (threadIdx.x < kSums) here[threadIdx.x] = 0;
  __syncthreads();
  float* to = none > 0 && threadIdx.x % none == 1 ? here : sums;
  if (thread() < n && atomicAdd(&to[thread() % kSums], x[thread()]) == -1e30f) to[0] = here[1];
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void order_only_red_float2(float2* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], make_float2(x[thread()], -2 * x[thread()]));
}
extern "C" __global__ void order_only_red_float4(float4* sums, const float* x, int n) {
  const float entry = x[thread()];
  if (thread() < n) atomicAdd(&sums[thread() % kSums], make_float4(entry, -entry, entry / 3, 1 - entry));
}
#endif
// In a function of its own.
__device__ __noinline__ void add_somewhere(float* to, float addend) { atomicAdd(to, addend); }
extern "C" __global__ void order_only_called(float* sums, const float* x, int n) {
  if (thread() < n) add_somewhere(&sums[thread() % kSums], x[thread()]);
}
// Its addends are constants that the program has set.
__constant__ float weights[kSums];
extern "C" __global__ void order_only_constants(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], x[thread()] * weights[thread() % kSums]);
}
// Its addends are a variable on the device, which an earlier kernel has set.
__device__ float scale;
extern "C" __global__ void deterministic_set_variable(float* sums, const float* x, int) {
  if (thread() == 0) scale = 1.0f / 3, sums[0] = x[7];
}
extern "C" __global__ void order_only_variable(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], x[thread()] * scale);
}

// Sums without a twin: blocks hand results to one another.

extern "C" __global__ void arrival_order_compare_and_swap(float* sums, const float* x, int n) {
  if (thread() >= n) return;
  auto* const word = reinterpret_cast<unsigned*>(&sums[thread() % kSums]);
  for (unsigned is = *word, was;; is = was) {
    was = atomicCAS(word, is, __float_as_uint(__uint_as_float(is) + x[thread()]));
    if (was == is) break;
  }
}
extern "C" __global__ void arrival_order_lock(float* sums, const float* x, int n, int* lock) {
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int i = thread(); i < min(n, thread() + kThreads); ++i) sum += x[i];
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  volatile float* const to = sums;
  *to = *to + sum;
  __threadfence();
  atomicExch(lock, 0);
}
// Each block appends its sum where it is its turn.
extern "C" __global__ void arrival_order_ticket(float* sums, const float* x, int n, int* tickets) {
  if (threadIdx.x == 0 && thread() < n) sums[kSums + atomicAdd(tickets, 1)] = x[thread()];
}
// The last block adds what the others have stored in the order in which they came.
extern "C" __global__ void arrival_order_last_block(float* sums, const float* x, int n, int* tickets) {
  if (threadIdx.x != 0 || thread() >= n) return;
  const int mine = atomicAdd(tickets, 1);
  volatile float* const parts = sums + kSums;
  parts[mine] = x[thread()] / 3;
  __threadfence();
  if (atomicAdd(tickets + 1, 1) != static_cast<int>(gridDim.x) - 1) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  sums[0] = sum;
}
extern "C" __global__ void arrival_order_exchange(float* sums, const float* x, int n, int* heads) {
  if (threadIdx.x == 0 && thread() < n)
    sums[kSums + blockIdx.x] = atomicExch(heads + 2, static_cast<int>(blockIdx.x)) + x[0];
}

// Races: what they compute is another thing each time.

extern "C" __global__ void race_lost_updates(float* sums, const float* x, int n) {
  if (thread() < n) sums[thread() % kSums] += x[thread()];
}
extern "C" __global__ void race_same_place(float* sums, const float* x, int n) {
  if (thread() < n) sums[thread() % kSums] = x[thread()];
}
extern "C" __global__ void race_in_place(float* sums, const float*, int n) {
  float* const row = sums + kSums;
  if (thread() < n) row[thread()] = 0.5f * row[(thread() + 4099) % n] + 0.25f * row[(thread() * 7) % n];
}
extern "C" __global__ void race_shared(float* sums, const float* x, int n) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = x[thread()];
  for (int step = kThreads / 2; step > 0; step /= 2) {  // there is no __syncthreads()
    if (static_cast<int>(threadIdx.x) < step)
      part[threadIdx.x] += static_cast<volatile float*>(part)[threadIdx.x + step];
  }
  if (thread() < n)
    sums[kSums + thread()] = static_cast<volatile float*>(part)[(threadIdx.x * 37) % kThreads] + clock64() % 7;
}
extern "C" __global__ void race_clock(float* sums, const float*, int n) {
  if (thread() < n) sums[kSums + thread()] = static_cast<float>(clock64() & 0xFFFF);
}
// The numbers that are added depend on the order of other additions.
extern "C" __global__ void arrival_order_of_sums_that_are_read(float* sums, const float* x, int n) {
  if (thread() < n) sums[kSums + thread()] = atomicAdd(&sums[thread() % kSums], x[thread()]);
}

// What does not vary, and could not.

extern "C" __global__ void deterministic_each_its_own(float* sums, const float* x, int n) {
  if (thread() < n) sums[kSums + thread()] = sinf(x[thread()]) / 3;
}
extern "C" __global__ void deterministic_reduction(float* sums, const float* x, int n) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = thread() < n ? x[thread()] : 0;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[kSums + blockIdx.x] = part[0];
}
extern "C" __global__ void deterministic_histogram(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(reinterpret_cast<int*>(sums) + static_cast<int>(x[thread()] * kSums), 1);
}
extern "C" __global__ void deterministic_in_place_twice(float* sums, const float* x, int n) {
  if (thread() < n) sums[kSums + thread()] = 0.9f * sums[kSums + thread()] + x[thread()];
}
__device__ int launches;
extern "C" __global__ void deterministic_counts_its_launches(float* sums, const float*, int) {
  if (thread() == 0) sums[0] = static_cast<float>(++launches);
}
// Variables at any address, several of them in one unit of 16 bytes.
__device__ unsigned char few[3];
__device__ short pairs[11];
__device__ int table[21];
extern "C" __global__ void deterministic_odd_variables(float* sums, const float*, int) {
  const int i = thread();
  if (i < 3) few[i] = static_cast<unsigned char>(few[i] + i + 1);
  if (i < 11) pairs[i] = static_cast<short>(pairs[i] + 3 * i + 1);
  if (i < 21) table[i] += i + 5;
  __syncthreads();
  if (i < 21) sums[i] = static_cast<float>(table[i] + pairs[i % 11] + few[i % 3]);
}
extern "C" __global__ void deterministic_by_table(float** rows, const float* x, int n) {
  if (thread() < n) rows[thread() % 4][thread() / 4] += x[thread()];
}
// What does not vary, but could.
extern "C" __global__ void may_vary_no_two_meet(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[kSums + thread()], x[thread()]);
}
// The last block adds what the others have stored, by their numbers.
extern "C" __global__ void may_vary_last_block_in_order(float* sums, const float* x, int n, int* tickets) {
  if (threadIdx.x != 0 || thread() >= n) return;
  volatile float* const parts = sums + kSums;
  parts[blockIdx.x] = x[thread()] / 3;
  __threadfence();
  if (atomicAdd(tickets, 1) != static_cast<int>(gridDim.x) - 1) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  sums[0] = sum;
}
extern "C" __global__ void may_vary_cooperative(float* sums, const float* x, int n) {
  const auto grid = cooperative_groups::this_grid();
  for (int i = thread(); i < n; i += gridDim.x * blockDim.x) sums[kSums + i] = x[i];
  grid.sync();
  for (int i = thread(); i < n; i += gridDim.x * blockDim.x) sums[kSums + n + i] = sums[kSums + (i + 5000) % n];
}

// Launched in a graph only.
extern "C" __global__ void order_only_in_a_graph(float* sums, const float* x, int n) {
  if (thread() < n) atomicAdd(&sums[thread() % kSums], x[thread()]);
}
extern "C" __global__ void deterministic_in_a_graph(float* sums, const float*, int n) {
  if (thread() < n) sums[kSums + thread()] = 0.5f * sums[kSums + thread()] + 1;
}

namespace {

// A row of x, the numbers that kernels read; and room for what they write.
struct Memory {
  float *sums, *x, **rows;
  int* numbers;
  size_t bytes = sizeof(float) * (2 * kSums + 2 * kCount);

  Memory() {
    std::vector<float> start(kCount), weight(kSums);
    unsigned state = 12345;
    for (float& entry : start) entry = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24);
    for (int i = 0; i < kSums; ++i) weight[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i + 3);
    CHECK(cudaMalloc(&sums, bytes));
    CHECK(cudaMalloc(&x, sizeof(float) * kCount));
    CHECK(cudaMalloc(&numbers, sizeof(int) * 16));
    CHECK(cudaMalloc(&rows, sizeof(float*) * 4));
    float* each[4];
    for (float*& row : each) CHECK(cudaMalloc(&row, sizeof(float) * kCount));
    CHECK(cudaMemcpy(x, start.data(), sizeof(float) * kCount, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(rows, each, sizeof each, cudaMemcpyHostToDevice));
    for (float* row : each) CHECK(cudaMemset(row, 0, sizeof(float) * kCount));
    CHECK(cudaMemcpyToSymbol(weights, weight.data(), sizeof(float) * kSums));
  }

  void clear() {
    CHECK(cudaMemset(sums, 0, bytes));
    CHECK(cudaMemset(numbers, 0, sizeof(int) * 16));
    CHECK(cudaMemcpy(sums + kSums, x, sizeof(float) * kCount, cudaMemcpyDeviceToDevice));
  }

  unsigned long long digest(const void* from, size_t size) const {
    std::vector<unsigned char> host(size);
    CHECK(cudaMemcpy(host.data(), from, size, cudaMemcpyDeviceToHost));
    unsigned long long hash = 14695981039346656037ULL;
    for (const unsigned char byte : host) hash = (hash ^ byte) * 1099511628211ULL;
    return hash;
  }
};

template <class Kernel>
void launch(Memory& memory, const char* name, Kernel kernel, bool is_cooperative = false) {
  memory.clear();
  void* sums = memory.sums;
  int n = kCount, none = 0;
  const bool is_table = std::strstr(name, "table") != nullptr;
  if (is_table) sums = memory.rows;
  const bool is_generic = std::strstr(name, "generic") != nullptr;
  void* parameters[] = {&sums, &memory.x, &n, is_generic ? static_cast<void*>(&none) : &memory.numbers};
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (is_cooperative) {
    CHECK(cudaLaunchCooperativeKernel(function, dim3(64), dim3(kThreads), parameters, 0, nullptr));
  } else {
    CHECK(cudaLaunchKernel(function, dim3(kBlocks), dim3(kThreads), parameters, 0, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  const std::string text = name;
  if (text.rfind("deterministic", 0) != 0 && text.rfind("may_vary", 0) != 0) return;
  float* row = nullptr;
  if (is_table) CHECK(cudaMemcpy(&row, memory.rows + 2, sizeof row, cudaMemcpyDeviceToHost));
  std::printf("%s %016llx\n", name, is_table ? memory.digest(row, 4096) : memory.digest(memory.sums, memory.bytes));
}

// A set, a copy and two kernels, captured, instantiated, and launched three times after the graph is gone.
void launch_in_a_graph(Memory& memory) {
  memory.clear();
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemsetAsync(memory.sums, 0, sizeof(float) * kSums, stream));
  order_only_in_a_graph<<<kBlocks, kThreads, 0, stream>>>(memory.sums, memory.x, kCount);
  CHECK(cudaMemcpyAsync(memory.numbers, memory.x, sizeof(int) * 16, cudaMemcpyDeviceToDevice, stream));
  deterministic_in_a_graph<<<kBlocks, kThreads, 0, stream>>>(memory.sums, memory.x, kCount);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamDestroy(stream));
  std::printf("deterministic_in_a_graph %016llx %016llx\n", memory.digest(memory.sums + kSums, sizeof(float) * kCount),
              memory.digest(memory.numbers, sizeof(int) * 16));
}

}  // namespace

#define LAUNCH(kernel) launch(memory, #kernel, kernel)

namespace {

void run(int argc, char** argv) {
  const int times = argc == 3 && std::strcmp(argv[1], "--times") == 0 ? std::atoi(argv[2]) : 2;
  cudaDeviceProp device{};
  CHECK(cudaGetDeviceProperties(&device, 0));
  Memory memory;
  for (int i = 0; i < times; ++i) {
    LAUNCH(order_only_red_float);
    LAUNCH(order_only_red_double);
    LAUNCH(order_only_red_half2);
    LAUNCH(order_only_red_bfloat162);
    LAUNCH(order_only_atom_float);
    LAUNCH(order_only_atom_double);
    LAUNCH(order_only_generic_float);
    if (device.major >= 9) LAUNCH(order_only_red_float2);
    if (device.major >= 9) LAUNCH(order_only_red_float4);
    LAUNCH(order_only_called);
    LAUNCH(order_only_constants);
    LAUNCH(deterministic_set_variable);
    LAUNCH(order_only_variable);
    LAUNCH(arrival_order_compare_and_swap);
    LAUNCH(arrival_order_lock);
    LAUNCH(arrival_order_ticket);
    LAUNCH(arrival_order_last_block);
    LAUNCH(arrival_order_exchange);
    LAUNCH(arrival_order_of_sums_that_are_read);
    LAUNCH(race_lost_updates);
    LAUNCH(race_same_place);
    LAUNCH(race_in_place);
    LAUNCH(race_shared);
    LAUNCH(race_clock);
    LAUNCH(deterministic_each_its_own);
    LAUNCH(deterministic_reduction);
    LAUNCH(deterministic_histogram);
    LAUNCH(deterministic_in_place_twice);
    LAUNCH(deterministic_counts_its_launches);
    LAUNCH(deterministic_odd_variables);
    LAUNCH(deterministic_by_table);
    LAUNCH(may_vary_no_two_meet);
    LAUNCH(may_vary_last_block_in_order);
    launch(memory, "may_vary_cooperative", may_vary_cooperative, /*is_cooperative=*/true);
    launch_in_a_graph(memory);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "surveyed: %s\n", error.what());
    return 1;
  }
}
