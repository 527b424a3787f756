// What listed instructions and compiled kernels count as; damaged cubins.
#include "recorder/device/communication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/device/listed_communication.h"
#include "tests/device/made_cubin.h"
#include "tests/device/tools.h"

namespace msda::record {
namespace {

using test::as_span;
using test::sm;

constexpr int kCommunicationArchitectures[] = {80, 86, 89, 90, 100, 103, 120, 121};

// The name that an instruction counts under, by what the disassembler prints; empty if it does not count.
std::string kind_by_name(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  const std::string_view opcode = name.substr(0, name.find('.'));
  if (opcode == "MEMBAR") return has(".GPU") || has(".SYS") ? "fences" : "";
  if (!has(".STRONG.GPU") && !has(".STRONG.SYS") && !has(".MMIO")) return "";
  if (opcode == "LD" || opcode == "LDG") return "strong_loads";
  if (opcode == "ST" || opcode == "STG") return "strong_stores";
  if (opcode != "ATOM" && opcode != "ATOMG") return "";
  if (has(".CAS.")) return "compare_and_swaps";
  if (has(".EXCH.")) return "exchanges";
  if (has("RZ")) return "";
  return has(".F32") || has(".F16") ? "used_float_atomics" : "used_integer_atomics";
}

std::string code_of_listed(const ListedCommunication& listed) {
  return test::bytes_of(listed.low) + test::bytes_of(listed.high);
}

InstructionCounts no_communication() {
  return {{"compare_and_swaps", 0},
          {"exchanges", 0},
          {"used_integer_atomics", 0},
          {"used_float_atomics", 0},
          {"strong_loads", 0},
          {"strong_stores", 0},
          {"fences", 0}};
}

TEST(Communication, IsWhatTheDisassemblerPrints) {
  for (const ListedCommunication& listed : kListedCommunication) {
    for (const int architecture : kCommunicationArchitectures) {
      if (architecture < listed.first || architecture > listed.last) continue;
      SCOPED_TRACE(sm(architecture) + " " + listed.name);
      const std::string cubin = test::make_cubin({"f"}, code_of_listed(listed));
      const auto found = communication_in(as_span(cubin), "f", sm(architecture));
      ASSERT_TRUE(found);
      InstructionCounts expected = no_communication();
      const std::string kind = kind_by_name(listed.name);
      if (!kind.empty()) ++expected[kind];
      EXPECT_EQ(found->counts, expected);
      EXPECT_EQ(found->may_communicate, !kind.empty() && kind != "strong_stores" && kind != "fences");
    }
  }
}

TEST(Communication, IsCountedInAFunction) {
  std::string code;
  InstructionCounts expected = no_communication();
  for (const ListedCommunication& listed : kListedCommunication) {
    if (listed.first > 100 || listed.last < 100) continue;
    code += code_of_listed(listed);
    const std::string kind = kind_by_name(listed.name);
    if (!kind.empty()) ++expected[kind];
  }
  for (const auto& [name, count] : expected) EXPECT_GT(count, 1) << name;
  const std::string cubin = test::make_cubin({"other", "f"}, code + "and a rest");
  const auto found = communication_in(as_span(cubin), "f", "sm_100a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->counts, expected);
  EXPECT_FALSE(communication_in(as_span(cubin), "g", "sm_100"));
  EXPECT_FALSE(communication_in({}, "f", "sm_100"));
  for (const char* unknown : {"", "sm_75", "sm_95", "sm_122", "compute_100"}) {
    EXPECT_FALSE(communication_in(as_span(cubin), "f", unknown)) << unknown;
  }
}

// Each instruction that reads what others may have written, at its place.
TEST(Communication, IsFoundInAFunction) {
  std::string code;
  std::vector<std::pair<uint64_t, std::string>> expected, found;
  for (const ListedCommunication& listed : kListedCommunication) {
    if (listed.first > 100 || listed.last < 100) continue;
    const std::string kind = kind_by_name(listed.name);
    if (!kind.empty() && kind != "strong_stores" && kind != "fences") expected.emplace_back(code.size(), kind);
    code += code_of_listed(listed);
  }
  const std::string cubin = test::make_cubin({"other", "f"}, code + "and a rest");
  for (const auto& [offset, kind] : communicating_in(as_span(cubin), "f", "sm_100a")) found.emplace_back(offset, kind);
  EXPECT_GT(found.size(), 10u);
  EXPECT_EQ(found, expected);
  EXPECT_THAT(communicating_in(as_span(cubin), "g", "sm_100"), testing::IsEmpty());
  EXPECT_THAT(communicating_in(as_span(cubin), "f", "sm_75"), testing::IsEmpty());
  EXPECT_THAT(communicating_in({}, "f", "sm_100"), testing::IsEmpty());
}

// Before sm_100 the opcodes of loads and stores of 256 bits have another meaning, or none.
TEST(Communication, WideLoadsAreOfBlackwell) {
  int wide = 0;
  for (const ListedCommunication& listed : kListedCommunication) {
    if (std::string_view(listed.name).find(".256.STRONG") == std::string_view::npos) continue;
    ++wide;
    const std::string cubin = test::make_cubin({"f"}, code_of_listed(listed));
    EXPECT_EQ(communication_in(as_span(cubin), "f", "sm_90")->counts, no_communication());
  }
  EXPECT_EQ(wide, 2);
}

TEST(Communication, OfDamagedCubinsIsHarmless) {
  std::string code;
  for (const ListedCommunication& listed : kListedCommunication) code += code_of_listed(listed);
  const std::string whole = test::make_cubin({"f", "g"}, code.substr(0, 400) + "and a rest");
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<char> exact = test::damage(i % 2 == 0 ? whole : whole.substr(0, random() % whole.size()), random);
    communication_in(std::as_bytes(std::span(exact)), "f", sm(i % 3 == 0 ? 80 : 100));
    communicating_in(std::as_bytes(std::span(exact)), "f", sm(i % 3 == 0 ? 80 : 100));
  }
}

// Kernels whose blocks do, or do not, read what others wrote.
constexpr const char* kCommunicatingKernels = R"(
// A sum under a lock: CAS and EXCH, or CAS and a volatile store.
extern "C" __global__ void lock(int* mutex, volatile float* sum, const float* p) {
  if (threadIdx.x == 0) {
    while (atomicCAS(mutex, 0, 1) != 0) {}
    __threadfence();
    *sum = *sum + p[blockIdx.x];
    __threadfence();
    atomicExch(mutex, 0);
  }
}
// Blocks store partial sums, and the last one adds them up.
extern "C" __global__ void last_block(unsigned* finished, float* partial, float* sum) {
  __shared__ bool last;
  partial[blockIdx.x] = threadIdx.x;
  __threadfence();
  if (threadIdx.x == 0) last = atomicInc(finished, gridDim.x) == gridDim.x - 1;
  __syncthreads();
  if (last) *sum = partial[threadIdx.x];
}
// Each block takes the next piece of work.
extern "C" __global__ void ticket(unsigned* next, float* out) {
  __shared__ unsigned mine;
  if (threadIdx.x == 0) mine = atomicAdd(next, 1u);
  __syncthreads();
  out[mine] = blockIdx.x;
}
// A scan that looks back at the sums of blocks before: flags that are polled, results of relaxed loads.
extern "C" __global__ void look_back(unsigned long long* states, float* out) {
  unsigned long long state;
  asm volatile("st.release.gpu.global.b64 [%0], %1;" :: "l"(states + blockIdx.x), "l"(1ull) : "memory");
  if (blockIdx.x > 0) {
    do asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(state) : "l"(states + blockIdx.x - 1) : "memory");
    while (state == 0);
    out[blockIdx.x] = state;
  }
}
// A barrier of all blocks, as that of cooperative groups.
extern "C" __global__ void grid_barrier(unsigned* arrived, float* p) {
  p[blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned old = atomicAdd(arrived, 0x80000000u - (gridDim.x - 1));
    while (((old ^ *(volatile unsigned*)arrived) & 0x80000000u) == 0) {}
    __threadfence();
  }
  __syncthreads();
  p[gridDim.x + blockIdx.x] = p[gridDim.x - 1 - blockIdx.x];
}
// Random orders of additions, but no block reads what another one wrote.
extern "C" __global__ void additions(float* sum, unsigned* count, const float* p) {
  __shared__ float within[64];
  __shared__ int places;
  within[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) ((volatile float*)within)[threadIdx.x] += within[threadIdx.x + 32];
  atomicAdd(&places, 1);
  __syncthreads();
  atomicAdd(sum + threadIdx.x, within[places % 64]);
  atomicAdd(count + threadIdx.x, 1u);
}
// A result of an addition that the kernel uses.
extern "C" __global__ void used_sum(float* sum, float* out) { out[threadIdx.x] = atomicAdd(sum + threadIdx.x % 3, 1.5f); }
)";

TEST(Communication, OfCompiledKernels) {
  if (!test::has_cuda_compiler()) GTEST_SKIP() << "no nvcc here";
  const std::string ptx = test::compile_to_ptx(kCommunicatingKernels);
  ASSERT_FALSE(ptx.empty());
  for (const int architecture : kCommunicationArchitectures) {
    SCOPED_TRACE(architecture);
    const std::string cubin = test::assemble(ptx, sm(architecture));
    if (cubin.empty()) continue;  // ptxas has said why, as it does of an architecture that is too new for it
    const auto given = [&](const char* function) {
      const auto found = communication_in(as_span(cubin), function, sm(architecture));
      EXPECT_TRUE(found) << function;
      return found.value_or(Communication{});
    };
    const auto expect = [&](const char* function, const InstructionCounts& expected) {
      SCOPED_TRACE(function);
      InstructionCounts all = no_communication();
      for (const auto& [name, count] : expected) all[name] = count;
      EXPECT_EQ(given(function).counts, all);
    };
    expect("lock",
           {{"compare_and_swaps", 1}, {"exchanges", 1}, {"strong_loads", 1}, {"strong_stores", 1}, {"fences", 2}});
    expect("last_block", {{"used_integer_atomics", 1}, {"fences", 1}});
    expect("ticket", {{"used_integer_atomics", 1}});
    expect("look_back", {{"strong_loads", 1}, {"strong_stores", 1}, {"fences", 1}});
    expect("grid_barrier", {{"used_integer_atomics", 1}, {"strong_loads", 1}, {"fences", 2}});
    expect("additions", {});
    expect("used_sum", {{"used_float_atomics", 1}});
    EXPECT_TRUE(given("look_back").may_communicate);
    EXPECT_FALSE(given("additions").may_communicate);
  }
}

}  // namespace
}  // namespace msda::record
