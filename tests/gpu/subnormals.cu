// What additions to memory make of subnormal numbers: one thread adds each pair with each instruction. Prints lines of
//   INSTRUCTION BITS BITS BITS
// of the two numbers and their sum, as hexadecimal numbers of the type.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// RED: no result is wanted. ATOMG: it is. ATOM: the address may be of any memory. Shared memory.
enum Instruction { kRed, kAtomGlobal, kAtomGeneric, kShared, kInstructions };

template <class T>
__global__ void add(const T* pairs, int count, T* sums, T* before, int generic) {
  __shared__ T shared;
  for (int i = 0; i < count; ++i) {
    for (int instruction = 0; instruction < kInstructions; ++instruction) {
      T* const sum = sums + i * kInstructions + instruction;
      *sum = pairs[2 * i];
      __threadfence();
    }
    atomicAdd(sums + i * kInstructions + kRed, pairs[2 * i + 1]);
    before[0] = atomicAdd(sums + i * kInstructions + kAtomGlobal, pairs[2 * i + 1]);
    shared = pairs[2 * i];
    __syncthreads();
    // The compiler does not know which memory this is.
    T* const any = generic != 0 ? sums + i * kInstructions + kAtomGeneric : &shared;
    before[1] = atomicAdd(any, pairs[2 * i + 1]);
    __syncthreads();
    atomicAdd(&shared, pairs[2 * i + 1]);
    __syncthreads();
    sums[i * kInstructions + kShared] = shared;
  }
}

template <class Bits>
struct Pair {
  Bits first, second;
};

template <class T, class Bits>
void run(const char* type, const std::vector<Pair<Bits>>& pairs) {
  static_assert(sizeof(T) == sizeof(Bits));
  const size_t count = pairs.size(), bytes = count * sizeof(pairs[0]);
  T *on_gpu, *sums, *before;
  check(cudaMalloc(&on_gpu, bytes));
  check(cudaMalloc(&sums, count * kInstructions * sizeof(T)));
  check(cudaMalloc(&before, 2 * sizeof(T)));
  check(cudaMemcpy(on_gpu, pairs.data(), bytes, cudaMemcpyHostToDevice));
  add<T><<<1, 1>>>(on_gpu, static_cast<int>(count), sums, before, 1);
  check(cudaGetLastError());
  std::vector<Bits> found(count * kInstructions);
  check(cudaMemcpy(found.data(), sums, found.size() * sizeof(Bits), cudaMemcpyDeviceToHost));
  const char* const names[] = {"RED", "ATOMG", "ATOM", "shared"};
  for (size_t i = 0; i < count; ++i) {
    for (int k = 0; k < kInstructions; ++k) {
      std::printf("%s %s %llx %llx %llx\n", type, names[k], static_cast<unsigned long long>(pairs[i].first),
                  static_cast<unsigned long long>(pairs[i].second),
                  static_cast<unsigned long long>(found[i * kInstructions + static_cast<size_t>(k)]));
    }
  }
}

// Subnormal numbers, zeros, the smallest normal numbers and larger ones of a type with so many bits of mantissa, of
// both signs, each with each.
template <class Bits>
std::vector<Pair<Bits>> pairs_of(int mantissa) {
  const Bits normal = static_cast<Bits>(Bits{1} << mantissa),
             sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  std::vector<Bits> numbers = {0,
                               1,
                               5,
                               static_cast<Bits>(normal / 2),
                               static_cast<Bits>(normal - 1),
                               normal,
                               static_cast<Bits>(normal + 1),
                               static_cast<Bits>(normal + normal / 2 + 3),
                               static_cast<Bits>(2 * normal),
                               static_cast<Bits>(4 * normal + 1)};
  for (size_t i = numbers.size(); i-- > 0;) numbers.push_back(static_cast<Bits>(numbers[i] | sign));
  std::vector<Pair<Bits>> pairs;
  for (const Bits first : numbers) {
    for (const Bits second : numbers) pairs.push_back({first, second});
  }
  return pairs;
}

}  // namespace

int main() {
  run<float>("float32", pairs_of<uint32_t>(23));
  run<double>("float64", pairs_of<uint64_t>(52));
  run<__half>("float16", pairs_of<uint16_t>(10));
  run<__nv_bfloat16>("bfloat16", pairs_of<uint16_t>(7));
}
