// What a cubin says of its variables and of the functions that its kernels call, as nvcc and ptxas make it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "recorder/device/cubin.h"
#include "recorder/device/variables.h"
#include "tests/device/tools.h"

namespace msda::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
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
  __noinline__ __device__ int look_up(int i) { return table[i]; }
  extern "C" __global__ void looks_up(int* p) { *p = look_up(*p); }
  extern "C" __global__ void adds(float* p, float by) { p[threadIdx.x] += 3.25f * by + constant[threadIdx.x]; }
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
    const auto constants = constants_in(test::as_span(cubin));
    EXPECT_THAT(constants, ElementsAre(testing::FieldsAre("constant", 12u)));
    EXPECT_THAT(called_by(cubin, "prints"), ElementsAre("vprintf"));
    EXPECT_THAT(called_by(cubin, "allocates"), ElementsAre("malloc"));
    EXPECT_THAT(called_by(cubin, "asserts"), ElementsAre("__assertfail"));
    for (const char* kernel : {"counts", "stores", "no such kernel"}) EXPECT_THAT(called_by(cubin, kernel), IsEmpty());
  }
}

std::set<std::string> used_by(const std::string& cubin, const char* kernel, const std::string& architecture) {
  std::set<std::string> names;
  for (const Variable& variable : variables_used_by(test::as_span(cubin), kernel, architecture)) {
    if (!variable.name.starts_with('$')) names.emplace(variable.name);
  }
  return names;
}

TEST_F(Symbols, TellWhichVariablesKernelsUse) {
  for (const int architecture : {80, 86, 90, 100, 120}) {
    const std::string name = test::sm(architecture), cubin = test::assemble(ptx_, name);
    SCOPED_TRACE(name);
    EXPECT_THAT(used_by(cubin, "counts", name), UnorderedElementsAre("counter", "table"));
    EXPECT_THAT(used_by(cubin, "stores", name), testing::Contains("table"));
    EXPECT_THAT(used_by(cubin, "looks_up", name), testing::Contains("table"));
    EXPECT_THAT(used_by(cubin, "adds", name), IsEmpty());
  }
  const std::string cubin = test::assemble(ptx_, "sm_90");
  EXPECT_THAT(used_by(cubin, "adds", "sm_61"), UnorderedElementsAre("counter", "table")) << "its code is not known";
}

// Each kernel uses one of fifty variables. The address beside it may be loaded with it.
TEST_F(Symbols, TellUsedFromUnusedVariables) {
  std::string source;
  for (int i = 0; i < 50; ++i) source += "__device__ int v" + std::to_string(i) + "[3];\n";
  for (int i = 0; i < 50; ++i) {
    const std::string number = std::to_string(i);
    source += "extern \"C\" __global__ void k" + number + "(int* p) { *p = v" + number + "[p[1]]; }\n";
  }
  const std::string ptx = test::compile_to_ptx(source);
  for (const int architecture : {80, 90, 100, 120}) {
    const std::string name = test::sm(architecture), cubin = test::assemble(ptx, name);
    SCOPED_TRACE(name);
    for (int i = 0; i < 50; ++i) {
      const auto used = used_by(cubin, ("k" + std::to_string(i)).c_str(), name);
      EXPECT_TRUE(used.contains("v" + std::to_string(i))) << i;
      EXPECT_LE(used.size(), 2u) << i;
    }
  }
}

TEST_F(Symbols, TellVariablesOfCodeThatIsDebuggedOrLinked) {
  for (const char* options : {"-G", "-rdc=true"}) {
    SCOPED_TRACE(options);
    const std::string command = std::string(test::kNvcc) + " -x cu -cubin " + options + " -arch=sm_90 input -o output";
    const std::string cubin = test::output_of(command, kSource);
    EXPECT_THAT(used_by(cubin, "counts", "sm_90"), UnorderedElementsAre("counter", HasSubstr("table")));
    EXPECT_THAT(used_by(cubin, "looks_up", "sm_90"), ElementsAre(HasSubstr("table")));
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
    variables_used_by(bytes, "stores", "sm_90");
    symbol_of(bytes, "prints");
  }
}

}  // namespace
}  // namespace msda::record
