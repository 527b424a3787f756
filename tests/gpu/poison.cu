// Launches kernels for `msda-replay run --poison`, each with one defect or none. The adapter that the check writes
// describes x and y, not scratch. The stand-in driver has the same (tests/stand_in_driver/poison_kernels.h).
#include <random>

#include "program.cuh"

constexpr int kThreads = 256;

// The threads write their numbers to shared memory and read their neighbours', without a barrier between. They wait
// differently long, as in a kernel with more to do.
__global__ void poison_race(int count, const float* x, float* y, float* scratch) {
  __shared__ volatile float shared[kThreads];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), t = static_cast<int>(threadIdx.x);
  shared[t] = 0;
  __syncthreads();
  const unsigned start = clock();
  while (clock() - start < ((start >> 3) * 2654435761u >> 24)) {
  }
  shared[t] = i < count ? x[i] : 0;
  const float neighbour = shared[(t + 32) % kThreads];  // of another warp
  if (i < count) y[i] = x[i] + neighbour + (scratch == nullptr ? 1.f : 0.f);
}

// y = x + beta * y with a beta of 0, which NaN survives.
__global__ void poison_reads_output(int count, const float* x, float* y, float* scratch) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) y[i] = x[i] + (scratch == nullptr ? 1.f : 0.f) * y[i];
}

// The last quarter of the scratch memory is never written.
__global__ void poison_reads_scratch(int count, const float* x, float* y, float* scratch) {
  for (int i = static_cast<int>(threadIdx.x); i < count - count / 4; i += static_cast<int>(blockDim.x)) {
    scratch[i] = 2 * x[i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    y[i] = scratch[count - 1 - i];
  }
}

// Shared memory that no thread writes.
__global__ void poison_reads_shared(int count, const float* x, float* y, float* scratch) {
  extern __shared__ volatile float shared_by_size[];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (scratch == nullptr) shared_by_size[threadIdx.x] = 0;
  if (i < count) y[i] = x[i] + shared_by_size[threadIdx.x];
}

// Atomic additions to four elements, which the caller has set to zero.
__global__ void poison_order_only(int count, const float* x, float* y, float* scratch) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) atomicAdd(y + i % 4, x[i] + (scratch == nullptr ? 1.f : 0.f));
}

// Writes scratch and shared memory before it reads them, and every second element of y not at all.
__global__ void poison_none(int count, const float* x, float* y, float* scratch) {
  __shared__ float shared[kThreads];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const float twice = i < count ? 2 * x[i] : 0;
  shared[threadIdx.x] = twice;
  if (i < count) scratch[i] = twice;
  __syncthreads();
  if (i < count && i % 2 == 0) y[i] = shared[threadIdx.x] + scratch[i];
}

namespace {

void run(const gpu::Options& options) {
  using Kernel = void (*)(int, const float*, float*, float*);
  const std::map<std::string, Kernel> kernels{{"race", poison_race},
                                              {"reads_output", poison_reads_output},
                                              {"reads_scratch", poison_reads_scratch},
                                              {"reads_shared", poison_reads_shared},
                                              {"order_only", poison_order_only},
                                              {"none", poison_none}};
  const int count = options.number("count", 1 << 16);
  std::mt19937 random(static_cast<unsigned>(options.number("seed", 1)));
  std::normal_distribution<float> normal;
  for (const auto& [name, kernel] : kernels) {
    if (options.has("kernels") && ("," + options.text("kernels") + ",").find("," + name + ",") == std::string::npos) {
      continue;
    }
    std::vector<float> x(static_cast<size_t>(count));
    for (float& number : x) number = normal(random);
    float* const device_x = gpu::upload(x);
    float* const y = gpu::upload(std::vector<float>(x.size(), 0));
    float* const scratch = gpu::upload(std::vector<float>(x.size(), 0));
    // One of them has a barrier between its parts, so it is one block.
    const int blocks = name == "reads_scratch" ? 1 : (count + kThreads - 1) / kThreads;
    const size_t shared = name == "reads_shared" ? kThreads * sizeof(float) : 0;
    kernel<<<blocks, kThreads, shared>>>(count, device_x, y, scratch);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const auto result = gpu::download(y, x.size());
    std::printf("%s %016llx\n", name.c_str(),
                static_cast<unsigned long long>(gpu::checksum(result.data(), result.size() * sizeof(float))));
    for (float* const pointer : {device_x, y, scratch}) CHECK(cudaFree(pointer));
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(gpu::Options(count, arguments, {}, {"kernels", "count", "seed"}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "poison: %s\n", error.what());
    return 1;
  }
}
