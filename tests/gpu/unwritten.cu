// Kernels that read memory that nobody wrote, and kernels that only look so, for a survey with --poison
// (docs/survey.md). A kernel's name begins with its verdict. Prints, to the last bit, what those compute that depend on
// no such memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "program.cuh"

namespace {

constexpr int kRows = 1024, kPacked = 900, kWidth = 64, kCount = kRows * kWidth, kThreads = 256;
constexpr size_t kBytes = sizeof(float) * kCount;

__device__ int thread() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

// The sums of the columns, one after the other: the order is fixed.
__device__ void add_columns(float* to, const float* x) {
  if (thread() >= kWidth) return;
  float sum = 0;
  for (int row = 0; row < kRows; ++row) sum += x[row * kWidth + thread()];
  to[thread()] = sum;
}

}  // namespace

#define COLUMNS(name) \
  extern "C" __global__ void name(float* to, const float* x) { add_columns(to, x); }
COLUMNS(reads_unwritten_rest)
COLUMNS(reads_unwritten_again)
COLUMNS(reads_unwritten_from_pool)
COLUMNS(reads_unwritten_beside_memset)
COLUMNS(deterministic_written)
COLUMNS(deterministic_after_memset)
COLUMNS(deterministic_after_copy)
COLUMNS(deterministic_after_rows)
COLUMNS(deterministic_managed)
COLUMNS(deterministic_of_clone)

extern "C" __global__ void deterministic_packed(float* to, const float* x) {
  if (thread() < kPacked * kWidth) to[thread()] = 0.5f * x[thread()];
}
extern "C" __global__ void reads_unwritten_clone(float* to, const float* x) {
  if (thread() < kCount) to[thread()] = x[thread()];
}
extern "C" __global__ void reads_unwritten_maximum(float* to, const float* x) {
  if (thread() < kCount) to[thread()] = fmaxf(x[thread()], 0.0f);
}
extern "C" __global__ void reads_unwritten_masked_by_zero(float* to, const float* x) {
  if (thread() < kCount) to[thread()] = __fmul_rn(x[thread()], thread() % 2 == 0 ? 1.0f : 0.0f);
}
extern "C" __global__ void reads_unwritten_atomics(int* to, const float* x) {
  if (thread() < kCount) atomicAdd(&to[thread() % kWidth], static_cast<int>(100 * x[thread()]));
}
extern "C" __global__ void deterministic_atomics(int* to, const float* x) {
  if (thread() < kCount) atomicAdd(&to[thread() % kWidth], static_cast<int>(100 * x[thread()]));
}
extern "C" __global__ void deterministic_masked(float* to, const float* x) {
  const float read = x[thread() % kCount];
  if (thread() < kCount) to[thread()] = thread() < kPacked * kWidth ? read : 1.0f;
}
// Whole vectors are loaded and stored; their last element is padding.
extern "C" __global__ void deterministic_vectors(float4* to, const float4* x) {
  if (thread() >= kCount / 4) return;
  float4 vector = to[thread()];
  const float4 entry = x[thread()];
  vector.x = entry.x, vector.y = entry.y, vector.z = entry.z;
  to[thread()] = vector;
}
extern "C" __global__ void deterministic_low_halves(uint16_t* to, const float*) {
  if (thread() < kCount) to[2 * thread()] = static_cast<uint16_t>(0xFF00 + thread() % 256);
}
// One launch fills a workspace, the next reads it.
extern "C" __global__ void deterministic_fill_workspace(float* to, const float* x) {
  if (thread() < kWidth) to[thread()] = x[thread()] + x[thread() + kWidth];
}
extern "C" __global__ void deterministic_read_workspace(float* to, const float* x) {
  if (thread() == 0) {
    for (int i = 0; i < kWidth; ++i) to[0] = i == 0 ? x[0] : to[0] + x[i];
  }
}
extern "C" __global__ void race_clock(float* to, const float* x) {
  if (thread() < kCount) to[thread()] = x[thread()] + static_cast<float>(clock64() & 0xFFFF);
}

namespace {

template <class T = float>
T* fresh(size_t bytes = kBytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes));
  return static_cast<T*>(memory);
}

float* filled(void* memory = nullptr) {
  std::vector<float> x(kCount);
  unsigned state = 12345;
  for (float& entry : x) entry = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24);
  if (memory == nullptr) memory = fresh();
  CHECK(cudaMemcpy(memory, x.data(), kBytes, cudaMemcpyHostToDevice));
  return static_cast<float*>(memory);
}

// `bytes` of the result are printed.
template <class To, class From>
void launch(const char* name, void (*kernel)(To*, const From*), To* to, const void* x, size_t bytes = 0) {
  kernel<<<kCount / kThreads, kThreads>>>(to, static_cast<const From*>(x));
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  if (bytes == 0) return;
  std::vector<unsigned char> host(bytes);
  CHECK(cudaMemcpy(host.data(), to, bytes, cudaMemcpyDeviceToHost));
  unsigned long long hash = 14695981039346656037ULL;
  for (const unsigned char byte : host) hash = (hash ^ byte) * 1099511628211ULL;
  std::printf("%s %016llx\n", name, hash);
}

#define LAUNCH(kernel, ...) launch(#kernel, kernel, __VA_ARGS__)

constexpr size_t kSums = sizeof(float) * kWidth;

void read_unwritten(const float* x) {
  float* const packed = fresh();
  LAUNCH(deterministic_packed, packed, x, sizeof(float) * kPacked * kWidth);
  LAUNCH(reads_unwritten_rest, fresh(kSums), packed);
  float* const clone = fresh();
  LAUNCH(reads_unwritten_clone, clone, fresh());
  LAUNCH(deterministic_of_clone, fresh(kSums), clone);
  LAUNCH(reads_unwritten_maximum, fresh(), fresh());
  LAUNCH(reads_unwritten_masked_by_zero, fresh(), fresh());
  LAUNCH(reads_unwritten_atomics, fresh<int>(kSums), x);
  float* const part = fresh();
  CHECK(cudaMemset(part, 0, kBytes / 2));
  LAUNCH(reads_unwritten_beside_memset, fresh(kSums), part);
  CHECK(cudaFree(filled()));
  LAUNCH(reads_unwritten_again, fresh(kSums), fresh());
  for (int time = 0; time < 2; ++time) {
    void* pooled = nullptr;
    CHECK(cudaMallocAsync(&pooled, kBytes, nullptr));
    if (time == 0) filled(pooled);
    if (time == 1) LAUNCH(reads_unwritten_from_pool, fresh(kSums), pooled);
    CHECK(cudaFreeAsync(pooled, nullptr));
  }
}

void read_written(const float* x) {
  LAUNCH(deterministic_written, fresh(kSums), x, kSums);
  float* const zeros = fresh();
  CHECK(cudaMemsetAsync(zeros, 0, kBytes));
  LAUNCH(deterministic_after_memset, fresh(kSums), zeros, kSums);
  float* const copy = fresh();
  CHECK(cudaMemcpyAsync(copy, x, kBytes, cudaMemcpyDeviceToDevice));
  LAUNCH(deterministic_after_copy, fresh(kSums), copy, kSums);
  // Rows by a copy, the others by a memset.
  float* const rows = fresh();
  const size_t pitch = sizeof(float) * kWidth;
  CHECK(cudaMemcpy2D(rows, 2 * pitch, x, 2 * pitch, pitch, kRows / 2, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemset2D(rows + kWidth, 2 * pitch, 0, pitch, kRows / 2));
  LAUNCH(deterministic_after_rows, fresh(kSums), rows, kSums);
  void* managed = nullptr;
  CHECK(cudaMallocManaged(&managed, kBytes));
  for (int i = 0; i < kCount; ++i) static_cast<float*>(managed)[i] = static_cast<float>(i % 7);
  LAUNCH(deterministic_managed, fresh(kSums), managed, kSums);
  int* const sums = fresh<int>(kSums);
  CHECK(cudaMemset(sums, 0, kSums));
  LAUNCH(deterministic_atomics, sums, x, kSums);
  float* const part = fresh();
  CHECK(cudaMemcpy(part, x, sizeof(float) * kPacked * kWidth, cudaMemcpyDeviceToDevice));
  LAUNCH(deterministic_masked, fresh(), part, kBytes);
  LAUNCH(deterministic_vectors, fresh<float4>(), x);
  LAUNCH(deterministic_low_halves, fresh<uint16_t>(), x);
  float* const workspace = fresh();
  LAUNCH(deterministic_fill_workspace, workspace, x, kSums);
  LAUNCH(deterministic_read_workspace, fresh(4), workspace, 4);
  LAUNCH(race_clock, fresh(), fresh());
}

void run() {
  const float* const x = filled();
  for (int time = 0; time < 2; ++time) {
    read_unwritten(x);
    read_written(x);
  }
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unwritten: %s\n", error.what());
    return 1;
  }
}
