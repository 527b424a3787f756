// What a cubin says of its variables and of the functions that its kernels call, as nvcc and ptxas make it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "recorder/device/cubin.h"
#include "tests/device/tools.h"

namespace msda::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr char kSource[] = R"(
  #include <cstdio>
  __device__ int counter;
  static __device__ float table[7];
  __constant__ int constant[3];
  __noinline__ __device__ void say(int i) { printf("%d", i); }
  extern "C" __global__ void prints(int* p) { say(*p); }
  extern "C" __global__ void counts(int* p) { *p = atomicAdd(&counter, 1) + constant[1] + table[*p]; }
  extern "C" __global__ void stores(int* p) { table[p[1]] = *p; }
  extern "C" __global__ void allocates(int** p) { *p = static_cast<int*>(malloc(4)); }
  extern "C" __global__ void asserts(int* p) { if (*p != 3) __assert_fail("p", "file", 3, "asserts"); }
)";

std::set<std::string> called_by(const std::string& cubin, const char* kernel) {
  std::set<std::string> names;
  for (const auto name : functions_called_by(test::as_span(cubin), kernel)) names.emplace(name);
  return names;
}

// The compiler's own names begin with a dollar sign: texts, as of printf.
std::set<std::pair<std::string, uint64_t>> variables_of(const std::string& cubin) {
  std::set<std::pair<std::string, uint64_t>> variables;
  for (const auto& [name, bytes] : variables_in(test::as_span(cubin))) {
    if (!name.starts_with('$')) variables.emplace(name, bytes);
  }
  return variables;
}

class Symbols : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (test::has_cuda_compiler()) ptx_ = test::compile_to_ptx(kSource);
  }
  void SetUp() override {
    if (ptx_.empty()) GTEST_SKIP() << "no nvcc here";
  }
  static inline std::string ptx_;
};

TEST_F(Symbols, TellVariablesAndCalls) {
  for (const int architecture : {80, 90, 100, 120}) {
    SCOPED_TRACE(architecture);
    const std::string cubin = test::assemble(ptx_, test::sm(architecture));
    ASSERT_FALSE(cubin.empty());
    EXPECT_THAT(variables_of(cubin), UnorderedElementsAre(std::pair("counter", 4u), std::pair("table", 28u)));
    EXPECT_THAT(called_by(cubin, "prints"), ElementsAre("vprintf"));
    EXPECT_THAT(called_by(cubin, "allocates"), ElementsAre("malloc"));
    EXPECT_THAT(called_by(cubin, "asserts"), ElementsAre("__assertfail"));
    for (const char* kernel : {"counts", "stores", "no such kernel"}) EXPECT_THAT(called_by(cubin, kernel), IsEmpty());
  }
}

// A function that is called, and not inlined, has a section of its own where code is linked.
TEST_F(Symbols, TellCallsOfFunctionsThatAreCalled) {
  const std::string cubin =
      test::output_of(std::string(test::kNvcc) + " -x cu -cubin -rdc=true -arch=sm_90 input -o output", kSource);
  ASSERT_FALSE(cubin.empty());
  EXPECT_THAT(called_by(cubin, "prints"), testing::Contains("vprintf"));
}

TEST_F(Symbols, DamageIsNeverReadPast) {
  const std::string cubin = test::assemble(ptx_, "sm_90");
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<char> damaged = test::damage(cubin, random);
    const auto bytes = std::as_bytes(std::span(damaged));
    for (const Variable& variable : variables_in(bytes)) ASSERT_LE(variable.name.size(), damaged.size());
    for (const auto name : functions_called_by(bytes, "prints")) ASSERT_LE(name.size(), damaged.size());
    symbol_of(bytes, "prints");
  }
}

}  // namespace
}  // namespace msda::record
