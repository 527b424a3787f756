#include "recorder/device/instructions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/device/listed_instructions.h"
#include "tests/device/made_cubin.h"
#include "tests/support/in_a_folder.h"

namespace msda::record {
namespace {

using testing::IsEmpty;

namespace fs = std::filesystem;

// What an instruction counts as, by its printed name.
struct ByName {
  bool reduction = false, global = false, shared = false, may_be_float = false, fused = false, padding = false;

  explicit ByName(std::string_view name) {
    const std::string_view opcode = name.substr(0, name.find('.'));
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    reduction = opcode == "RED" || opcode == "REDG" || opcode == "REDAS" || opcode == "UBLKRED" || opcode == "UTMAREDG";
    global = opcode == "ATOM" || opcode == "ATOMG";
    shared = opcode == "ATOMS";
    const bool sums_of_a_tile = opcode == "UTMAREDG" && (has(".ADD") || has(".MIN") || has(".MAX"));
    may_be_float =
        is_atomic() && (has(".F16") || has(".F32") || has(".F64") || has(".BF16") || has(".CAS") || sums_of_a_tile);
    fused = opcode == "FFMA" || opcode == "FFMA2" || opcode == "DFMA";
    padding = opcode == "NOP";
  }
  bool is_atomic() const { return reduction || global || shared; }
};

std::array<std::byte, kInstructionBytes> bytes_of(const ListedInstruction& listed) {
  std::array<std::byte, kInstructionBytes> bytes;
  std::memcpy(bytes.data(), &listed.low, sizeof listed.low);
  std::memcpy(bytes.data() + sizeof listed.low, &listed.high, sizeof listed.high);
  return bytes;
}

TEST(Instructions, AreWhatTheDisassemblerPrints) {
  for (const ListedInstruction& listed : kListedInstructions) {
    SCOPED_TRACE(std::string(listed.name) + " for sm_" + std::to_string(listed.architecture));
    const ByName expected(listed.name);
    const auto atomic = atomic_in(bytes_of(listed), listed.architecture);
    ASSERT_EQ(atomic.has_value(), expected.is_atomic());
    if (!atomic) continue;
    EXPECT_EQ(atomic->kind == Atomic::Kind::kReduction, expected.reduction);
    EXPECT_EQ(atomic->kind == Atomic::Kind::kGlobal, expected.global);
    EXPECT_EQ(atomic->kind == Atomic::Kind::kShared, expected.shared);
    EXPECT_EQ(atomic->may_be_float, expected.may_be_float);
    EXPECT_TRUE(std::string_view(listed.name).starts_with(atomic->opcode)) << atomic->opcode;
  }
}

TEST(Instructions, OfAFunctionAreCounted) {
  for (const bool hopper : {false, true}) {
    std::string code;
    InstructionCounts expected;
    for (const char* name : {"instructions", "fused_multiply_adds", "reductions", "global_atomics", "shared_atomics",
                             "float_atomics", "atomics"}) {
      expected[name] = 0;
    }
    for (const ListedInstruction& listed : kListedInstructions) {
      const ByName is(listed.name);
      if ((listed.architecture >= 90) != hopper || is.padding) continue;
      const auto bytes = bytes_of(listed);
      code.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      ++expected["instructions"];
      expected["fused_multiply_adds"] += is.fused;
      expected["reductions"] += is.reduction;
      expected["global_atomics"] += is.global;
      expected["shared_atomics"] += is.shared;
      expected["float_atomics"] += is.may_be_float;
      expected["atomics"] += is.is_atomic();
    }
    // A last branch, to itself, and what fills the place behind it: "BRA" and "NOP".
    constexpr uint64_t kBranch = 0xfffffffc00fc7947, kNop = 0x0000000000007918;
    for (const uint64_t low : {kBranch, kNop, kNop}) code += test::bytes_of(low) + std::string(8, '\0');
    const std::string cubin = test::make_cubin({"other", "f"}, code);
    const auto bytes = std::as_bytes(std::span(cubin));
    EXPECT_EQ(count_instructions(bytes, "f", hopper ? "sm_90a" : "sm_80"), expected);
    EXPECT_THAT(count_instructions(bytes, "g", "sm_90"), IsEmpty());
    for (const char* unknown : {"", "sm_61", "sm_130", "sm_", "sm_x", "compute_90", "90"}) {
      EXPECT_THAT(count_instructions(bytes, "f", unknown), IsEmpty()) << unknown;
    }
  }
}

TEST(Instructions, OfDamagedCubinsAreHarmless) {
  std::string code;
  for (const ListedInstruction& listed : kListedInstructions) {
    const auto bytes = bytes_of(listed);
    code.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const std::string whole = test::make_cubin({"f"}, code + "and a rest");
  EXPECT_EQ(count_instructions(std::as_bytes(std::span(whole)), "f", "sm_90").empty(), false);
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole.substr(0, i % 2 == 0 ? whole.size() : random() % whole.size());
    for (int change = 0; change < 3 && !damaged.empty(); ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const std::vector<char> exact(damaged.begin(), damaged.end());  // sanitizers see reads beyond its end
    count_instructions(std::as_bytes(std::span(exact)), "f", "sm_90");
  }
}

// A file that a tool made.
class Compiled {
 public:
  explicit Compiled(const std::string& source) { std::ofstream(folder_.path / "k.cu") << source; }

  std::string cubin(const std::string& architecture) const {
    return output("/usr/local/cuda/bin/nvcc -cubin -arch=" + architecture + " k.cu -o k.cubin && cat k.cubin");
  }
  std::string output(const std::string& command) const {
    const std::string whole = "cd '" + folder_.path.string() + "' && " + command + " > output";
    EXPECT_EQ(std::system(whole.c_str()), 0) << command;
    std::ifstream file(folder_.path / "output", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  tests::TemporaryFolder folder_;
};

// Kernels whose atomics are known from their source.
TEST(Instructions, AgreeWithTheSource) {
  if (!fs::exists("/usr/local/cuda/bin/nvcc")) GTEST_SKIP() << "no nvcc here";
  const Compiled source(R"(
extern "C" __global__ void three(float* p, float* q) {
  __shared__ int s;
  atomicMax(&s, 7 * threadIdx.x);   // shared
  __syncthreads();
  atomicAdd(q, p[s]);               // two whose results nobody takes
  atomicAdd(q + 1, 2 * p[s]);
  q[2] = atomicExch(q + 3, p[1]);   // one whose result is taken
}
extern "C" __global__ void fused(float* p, float a) {
  float x = p[threadIdx.x];
  x = __fmaf_rn(x, a, 1.0f);
  x = __fmaf_rn(x, a, 2.0f);
  p[threadIdx.x] = __fmaf_rn(x, a, 3.0f);
}
)");
  for (const std::string architecture : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    SCOPED_TRACE(architecture);
    const std::string file = source.cubin(architecture);
    const auto cubin = std::as_bytes(std::span(file));
    InstructionCounts three = count_instructions(cubin, "three", architecture);
    EXPECT_EQ(three["reductions"], 2);
    EXPECT_EQ(three["global_atomics"], 1);
    EXPECT_EQ(three["shared_atomics"], 1);
    EXPECT_EQ(three["float_atomics"], 2);
    EXPECT_EQ(three["atomics"], 4);
    EXPECT_EQ(three["fused_multiply_adds"], 0);
    InstructionCounts fused = count_instructions(cubin, "fused", architecture);
    EXPECT_EQ(fused["fused_multiply_adds"], 3);
    EXPECT_EQ(fused["atomics"], 0);
    EXPECT_GT(fused["instructions"], 5);
  }
}

}  // namespace
}  // namespace msda::record
