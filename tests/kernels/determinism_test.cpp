// The deterministic guarantee: the same bits on every run, thread count and instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "kernels/msda.h"
#include "recorder/capture/digest.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

using analysis::Gradient;

// Large enough for several tasks a thread, with one-pixel levels that take thousands of addends each.
Problem crowded_problem(msda_dtype dtype) {
  return make_problem({2, 3, 33, 500, 4, {{16, 12}, {7, 9}, {1, 1}, {2, 1}}},
                      {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, dtype, 42, Locations::kAnywhere);
}

TEST(Determinism, SameDigestsOnAnyThreadCount) {
  for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_FLOAT16, MSDA_FLOAT64}) {
    const Problem problem = crowded_problem(dtype);
    for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC, MSDA_MODE_FLOAT64, MSDA_MODE_MIXED}) {
      std::set<std::string> digests;
      for (const int threads : {1, 2, 7}) digests.insert(digest_of(run_backward(problem, {mode, threads, 3, 1u << 4})));
      EXPECT_EQ(digests.size(), 1u) << msda_mode_name(mode) << " " << msda_dtype_name(dtype);
    }
  }
}

TEST(Determinism, SameDigestsOver20Runs) {
  const Problem problem = crowded_problem(MSDA_FLOAT32);
  std::set<std::string> digests;
  for (int run = 0; run < 20; ++run) digests.insert(digest_of(run_backward(problem)));
  EXPECT_EQ(digests.size(), 1u);
}

TEST(Determinism, AtomicOrdersDifferBySeedInGradValueAlone) {
  const Problem problem = crowded_problem(MSDA_FLOAT32);
  std::set<std::string> value, others;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Gradients gradients = run_backward(problem, {MSDA_MODE_ATOMIC, 0, seed, 0});
    value.insert(capture::digest(gradients.of(analysis::MsdaGradient::kValue).bytes()));
    gradients.of(analysis::MsdaGradient::kValue) = OwnedTensor::for_result(MSDA_FLOAT32, {0});
    others.insert(digest_of(gradients));
  }
  EXPECT_EQ(value.size(), 8u);
  EXPECT_EQ(others.size(), 1u);
}

// As the atomic additions of a GPU: every addend is subnormal, which they take as zero, in float32 and not in float64.
TEST(Determinism, AtomicAdditionsFlushSubnormals) {
  for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_FLOAT64}) {
    Problem problem = make_problem({1, 2, 5, 40, 2, {{6, 5}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, dtype, 3);
    PortableNumbers fill;
    fill(problem.grad_output, -0x1p-128, 0x1p-128);
    fill(problem.attention_weights, 0, 1);
    for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC}) {
      const auto values = run_backward(problem, {mode, 0, 7, 0}).of(analysis::MsdaGradient::kValue).values();
      const bool all_zero = std::ranges::all_of(values, [](double value) { return value == 0; });
      EXPECT_EQ(all_zero, dtype == MSDA_FLOAT32 && mode == MSDA_MODE_ATOMIC) << msda_mode_name(mode) << dtype;
    }
  }
}

Problem portable_problem(const analysis::Conventions& conventions) {
  Problem problem = make_problem({2, 2, 40, 300, 3, {{12, 10}, {5, 5}, {1, 1}}}, conventions, MSDA_FLOAT32, 0);
  PortableNumbers fill;
  fill(problem.value, -2, 2);
  fill(problem.sampling_locations, -0.25, 1.25);
  fill(problem.attention_weights, 0, 1);
  fill(problem.grad_output, -1, 1);
  return problem;
}

// Whether this processor has an instruction set of MSDA_CPU_ISA.
bool has([[maybe_unused]] std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "x86_64_v3") return __builtin_cpu_supports("avx2");
  if (isa == "x86_64_v4") return __builtin_cpu_supports("avx512vl");
#endif
  return true;
}

// ctest runs this under every instruction set (MSDA_CPU_ISA); each must give these digests, and so must any other
// machine and compiler. A change of them is a change of docs/determinism.md.
TEST(Determinism, DigestsOfRecord) {
  static constexpr const char* kDigests[] = {
      "xxh3-128:6415be88d136618c35e1b370af2d63d5", "xxh3-128:76ae491adf7a9a03ff61f70a88c7427a",
      "xxh3-128:acd24ad9d630e4949589091588c6ff6f", "xxh3-128:6ae0528b13a8f90f560eb3223f722a35",
      "xxh3-128:a0c4061924ff05f39499a1758ddf3d2d", "xxh3-128:54c45f724a2c0a3f5ea5b5fb213ef804",
      "xxh3-128:89883e722b5628b94dcb95bdc64fa458", "xxh3-128:5328ca977c517a7d4362053983e1b581",
      "xxh3-128:a18cfbf5f380fceabeab031b6c8548a1",
  };
  if (const char* wanted = std::getenv("MSDA_CPU_ISA")) {
    if (!has(wanted)) GTEST_SKIP() << "this processor has no " << wanted;
    EXPECT_STREQ(msda_cpu_isa(), wanted);
  }
  std::vector<std::string> digests;
  for (const auto& conventions : all_conventions()) {
    std::vector<std::byte> all;
    for (const OwnedTensor& tensor : run_backward(portable_problem(conventions)).tensors) {
      all.insert(all.end(), tensor.bytes().begin(), tensor.bytes().end());
    }
    digests.push_back(capture::digest(all));
  }
  EXPECT_EQ(digests, std::vector<std::string>(std::begin(kDigests), std::end(kDigests)));
}

}  // namespace
}  // namespace msda::tests
