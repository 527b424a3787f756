// What additions to memory make of subnormal numbers: one thread adds each pair with each instruction. Prints lines of
//   TYPE INSTRUCTION BITS BITS BITS
// of the two numbers and their sum, as hexadecimal numbers of the type.
#include "program.cuh"

namespace {

// The instructions by name, since compilers choose another for atomicAdd() where it suits them: RED has no result,
// ATOM's address may be of any memory. Numbers of 16 bits are the lower half of a word.
#define MSDA_TYPE(NAME, WORD, IN, ADD)                                                                    \
  struct NAME {                                                                                           \
    using Word = WORD;                                                                                    \
    static __device__ void red(Word* to, Word x) {                                                        \
      asm volatile("red.global." ADD " [%0], %1;" ::"l"(to), IN(x) : "memory");                           \
    }                                                                                                     \
    static __device__ void atom_global(Word* to, Word x, Word* before) {                                  \
      asm volatile("atom.global." ADD " %0, [%1], %2;" : "=" IN(*before) : "l"(to), IN(x) : "memory");    \
    }                                                                                                     \
    static __device__ void atom(Word* to, Word x, Word* before) {                                         \
      asm volatile("atom." ADD " %0, [%1], %2;" : "=" IN(*before) : "l"(to), IN(x) : "memory");           \
    }                                                                                                     \
    static __device__ void atom_shared(Word* to, Word x, Word* before) {                                  \
      const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));                             \
      asm volatile("atom.shared." ADD " %0, [%1], %2;" : "=" IN(*before) : "r"(place), IN(x) : "memory"); \
    }                                                                                                     \
  };
MSDA_TYPE(Float32, float, "f", "add.f32")
MSDA_TYPE(Float64, double, "d", "add.f64")
MSDA_TYPE(Float16, uint32_t, "r", "add.noftz.f16x2")
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
MSDA_TYPE(BFloat16, uint32_t, "r", "add.noftz.bf16x2")
#endif

constexpr const char* kInstructions[] = {"RED", "ATOMG", "ATOM", "shared"};
constexpr int kCount = 4;

template <class Type>
__device__ void add_with_each(const typename Type::Word* pairs, int count, typename Type::Word* sums,
                              typename Type::Word* before) {
  using Word = typename Type::Word;
  __shared__ Word shared;
  for (int i = 0; i < count; ++i) {
    Word* const sum = sums + i * kCount;
    const Word addend = pairs[2 * i + 1];
    for (int k = 0; k < kCount; ++k) sum[k] = pairs[2 * i];
    shared = pairs[2 * i];
    __threadfence();
    __syncthreads();
    Type::red(sum, addend);
    Type::atom_global(sum + 1, addend, before + 1);
    Type::atom(sum + 2, addend, before + 2);
    Type::atom_shared(&shared, addend, before + 3);
    __syncthreads();
    sum[3] = shared;
  }
}

__global__ void add_float32(const float* pairs, int count, float* sums, float* before) {
  add_with_each<Float32>(pairs, count, sums, before);
}
__global__ void add_float64(const double* pairs, int count, double* sums, double* before) {
  add_with_each<Float64>(pairs, count, sums, before);
}
__global__ void add_float16(const uint32_t* pairs, int count, uint32_t* sums, uint32_t* before) {
  add_with_each<Float16>(pairs, count, sums, before);
}
__global__ void add_bfloat16(const uint32_t* pairs, int count, uint32_t* sums, uint32_t* before) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // older ones have none
  add_with_each<BFloat16>(pairs, count, sums, before);
#endif
}

template <class Bits>
struct Pair {
  Bits first, second;
};

template <class Word, class Bits>
void run(const char* type, void (*add)(const Word*, int, Word*, Word*), const std::vector<Pair<Bits>>& pairs) {
  static_assert(sizeof(Word) == sizeof(Bits));
  const size_t count = pairs.size(), bytes = count * sizeof(pairs[0]);
  Word *on_gpu, *sums, *before;
  CHECK(cudaMalloc(&on_gpu, bytes));
  CHECK(cudaMalloc(&sums, count * kCount * sizeof(Word)));
  CHECK(cudaMalloc(&before, kCount * sizeof(Word)));
  CHECK(cudaMemcpy(on_gpu, pairs.data(), bytes, cudaMemcpyHostToDevice));
  add<<<1, 1>>>(on_gpu, static_cast<int>(count), sums, before);
  CHECK(cudaGetLastError());
  std::vector<Bits> found(count * kCount);
  CHECK(cudaMemcpy(found.data(), sums, found.size() * sizeof(Bits), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < kCount; ++k) {
      std::printf("%s %s %llx %llx %llx\n", type, kInstructions[k], static_cast<unsigned long long>(pairs[i].first),
                  static_cast<unsigned long long>(pairs[i].second),
                  static_cast<unsigned long long>(found[i * kCount + k]));
    }
  }
}

// Subnormal numbers, zeros, the smallest normal numbers and larger ones of both signs, each with
// each, of a type with so many bits, some of them of the mantissa.
template <class Bits>
std::vector<Pair<Bits>> pairs_of(int mantissa, int bits) {
  const Bits normal = Bits{1} << mantissa, sign = Bits{1} << (bits - 1);
  std::vector<Bits> numbers = {
      0, 1, 5, normal / 2, normal - 1, normal, normal + 1, normal + normal / 2 + 3, 2 * normal, 4 * normal + 1};
  for (size_t i = numbers.size(); i-- > 0;) numbers.push_back(numbers[i] | sign);
  std::vector<Pair<Bits>> pairs;
  for (const Bits first : numbers) {
    for (const Bits second : numbers) pairs.push_back({first, second});
  }
  return pairs;
}

}  // namespace

int main() {
  try {
    run("float32", add_float32, pairs_of<uint32_t>(23, 32));
    run("float64", add_float64, pairs_of<uint64_t>(52, 64));
    run("float16", add_float16, pairs_of<uint32_t>(10, 16));
    int major = 0;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major >= 9) run("bfloat16", add_bfloat16, pairs_of<uint32_t>(7, 16));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "subnormals: %s\n", error.what());
    return 1;
  }
}
