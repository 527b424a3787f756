// A call's path to a GPU and back, in one piece and in parts. The GPU is the stand-in driver, whose memory the CPU's
// msda_backward() can reach: it computes on what was copied there. The expected result is that of the same function on
// the whole call.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "analysis/operators/grid_sample/device_call.h"
#include "analysis/operators/msda/device_call.h"
#include "replay/gpu/replay.h"
#include "tests/support/grid_problem.h"
#include "tests/support/problem.h"

namespace msda::replay {
namespace {

using analysis::Gradient;
using tests::Gradients;
using tests::Problem;

// What the operator on the stand-in receives, and when it reports that memory does not suffice.
struct Seen {
  std::atomic<int> parts{0};
  std::atomic<int64_t> most_heads{1 << 20};
} seen;

void wait_for(void* stream) {
  using Synchronize = int (*)(void*);
  static const auto wait =
      reinterpret_cast<Synchronize>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamSynchronize"));
  EXPECT_EQ(wait(stream), 0);
}

msda_status on_stand_in(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                        const msda_tensor* value, const msda_tensor* locations, const msda_tensor* weights,
                        void* stream) {
  wait_for(stream);
  if (call->value.shape[0] * call->value.shape[2] > seen.most_heads) return MSDA_OUT_OF_MEMORY;
  ++seen.parts;
  return msda_backward(call, grad_output, options, value, locations, weights);
}

// A backward pass over a problem, with results of its own.
struct Pass {
  const Problem& problem;
  msda_options options;
  Gradients results;

  explicit Pass(const Problem& given, const msda_options& with = {}) : problem(given), options(with) {
    for (const Gradient gradient : analysis::MsdaGradient::kAll) {
      results.of(gradient) = tests::OwnedTensor::for_result(
          with.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : problem.dtype, problem.shape_of(gradient));
    }
  }
  analysis::DeviceCall backward() const {
    return device_call_of(problem.call(), options,
                          std::array{results.tensors[0].view, results.tensors[1].view, results.tensors[2].view},
                          on_stand_in);
  }
  void expect_as_unsplit() const {
    EXPECT_EQ(digest_of(results), digest_of(run_backward(problem, options))) << problem.text();
  }
};

void run(GpuReplay& gpu, const Pass& pass) {
  seen.parts = 0;
  gpu.run(pass.backward());
  pass.expect_as_unsplit();
}

tests::Sizes sizes_of(int64_t B, int64_t M) {
  tests::Sizes sizes;
  sizes.B = B;
  sizes.M = M;
  sizes.D = 5;
  sizes.Q = 40;
  sizes.levels = {{6, 5}, {2, 3}};
  return sizes;
}

class GpuReplayTest : public testing::Test {
 protected:
  ~GpuReplayTest() override {
    unsetenv("MSDA_STAND_IN_MEMORY");
    seen.most_heads = 1 << 20;
  }
};

TEST_F(GpuReplayTest, PartsAreTheWhole) {
  for (const auto& [B, M] : {std::pair{1, 1}, {3, 1}, {1, 5}, {3, 4}}) {
    for (const msda_dtype dtype : {MSDA_FLOAT16, MSDA_FLOAT32, MSDA_FLOAT64}) {
      for (const auto& conventions : tests::all_conventions()) {
        const Problem problem = make_problem(sizes_of(B, M), conventions, dtype, 7, tests::Locations::kAnywhere);
        for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_FLOAT64}) {
          const Pass whole(problem, {mode, 1, 0, 0});
          const uint64_t bytes = whole.backward().device_bytes();
          for (const int parts : {1, 2, B * M}) {
            if (parts > B * M) continue;
            const Pass pass(problem, {mode, 1, 0, 0});
            GpuReplay gpu(0, bytes / static_cast<uint64_t>(parts) + 1, 1);
            run(gpu, pass);
            EXPECT_GE(seen.parts, parts);
            EXPECT_LE(seen.parts, parts == 1 ? 1 : B * M);
          }
        }
      }
    }
  }
}

TEST_F(GpuReplayTest, BytesAreThoseOfTheTensorsAndMore) {
  const Problem problem = make_problem(sizes_of(3, 4), {}, MSDA_FLOAT32, 3);
  const Pass pass(problem);
  uint64_t bytes = 0;
  for (const auto* tensor :
       {&problem.value, &problem.sampling_locations, &problem.attention_weights, &problem.grad_output}) {
    bytes += tensor->bytes().size();
  }
  for (const auto& tensor : pass.results.tensors) bytes += tensor.bytes().size();
  const uint64_t samples = 3 * 40 * 4 * 2 * 2, cells = 12 * (7 * 6 + 3 * 4);
  EXPECT_EQ(pass.backward().device_bytes(), bytes + 48 * samples + 1040 * (cells + samples / 32));
}

TEST_F(GpuReplayTest, MemoryThatIsNotThereAfterAll) {
  const Problem problem = make_problem(sizes_of(2, 6), {}, MSDA_FLOAT32, 5);
  // The operator's limit: it accepts parts of one batch and three heads.
  seen.most_heads = 3;
  GpuReplay first(0, 0, 1);
  run(first, Pass(problem));
  EXPECT_EQ(seen.parts, 4);
  seen.most_heads = 1 << 20;
  // The driver's limit: it allocates no piece as large as all tensors.
  const Pass pass(problem);
  const uint64_t bytes = pass.backward().device_bytes();
  GpuReplay second(0, 0, 1);
  second.open();  // sees 16 GB
  setenv("MSDA_STAND_IN_MEMORY", std::to_string(bytes / 16).c_str(), 1);
  run(second, pass);
  EXPECT_GT(seen.parts, 1);
  // What is free at the beginning counts as well.
  setenv("MSDA_STAND_IN_MEMORY", std::to_string(bytes / 2).c_str(), 1);
  GpuReplay third(0, 0, 1);
  run(third, Pass(problem));
  EXPECT_EQ(seen.parts, 4);  // nine tenths of that
}

TEST_F(GpuReplayTest, OneHeadIsTheLeast) {
  const Problem problem = make_problem(sizes_of(2, 2), {}, MSDA_FLOAT32, 5);
  const Pass pass(problem);
  GpuReplay small(0, 1000, 1);
  const auto is_too_large = testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("needs up to"));
  EXPECT_THAT([&] { small.run(pass.backward()); }, is_too_large);
  seen.most_heads = 0;
  GpuReplay refusing(0, 0, 1);
  EXPECT_THAT([&] { refusing.run(pass.backward()); }, is_too_large);
}

TEST_F(GpuReplayTest, NothingInIt) {
  for (const int empty : {0, 1, 2, 3, 4}) {
    tests::Sizes sizes = sizes_of(empty == 0 ? 0 : 2, empty == 1 ? 0 : 3);
    if (empty == 2) sizes.Q = 0;
    if (empty == 3) sizes.D = 0;
    if (empty == 4) sizes.P = 0;
    const Problem problem = make_problem(sizes, {}, MSDA_FLOAT32, 5);
    GpuReplay gpu(0, 0, 1);
    run(gpu, Pass(problem));
  }
}

TEST_F(GpuReplayTest, TwoThreadsOfOneGpu) {
  const Problem problem = make_problem(sizes_of(3, 4), {}, MSDA_FLOAT32, 9);
  const auto work = [&] {
    const uint64_t bytes = Pass(problem).backward().device_bytes();
    GpuReplay gpu(0, bytes, 2);
    for (int i = 0; i < 30; ++i) {
      const Pass pass(problem);
      gpu.run(pass.backward());
      pass.expect_as_unsplit();
    }
  };
  std::jthread entry(work), another(work);
}

TEST_F(GpuReplayTest, WhatTheOperatorSays) {
  const Problem problem = make_problem(sizes_of(1, 1), {}, MSDA_FLOAT32, 9);
  const Pass pass(problem, {static_cast<msda_mode>(9), 1, 0, 0});
  GpuReplay gpu(0, 0, 1);
  EXPECT_THAT([&] { gpu.run(pass.backward()); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("mode")));
  GpuReplay none(3, 0, 1);
  EXPECT_THAT([&] { none.open(); }, testing::ThrowsMessage<gpu::Failure>(testing::HasSubstr("there is no device 3")));
}

msda_status grid_on_stand_in(const msda_grid_sample_call* call, const msda_tensor* grad_output,
                             const msda_options* options, const msda_tensor* grad_input, const msda_tensor* grad_grid,
                             void* stream) {
  wait_for(stream);
  ++seen.parts;
  return msda_grid_sample_backward(call, grad_output, options, grad_input, grad_grid);
}

TEST_F(GpuReplayTest, GridSampleInPartsIsTheWhole) {
  for (const tests::Variant& variant : tests::all_variants()) {
    const tests::GridProblem problem = make_grid_problem(variant, MSDA_FLOAT16, 3, {5, 7});
    const auto results = [&] {
      return std::array{tests::OwnedTensor::for_result(MSDA_FLOAT32, problem.call.image.shape),
                        tests::OwnedTensor::for_result(MSDA_FLOAT32, problem.call.locations.shape)};
    };
    const auto whole = results(), in_parts = results();
    problem.call.run_kernels({}, std::array{whole[0].view, whole[1].view});
    const analysis::DeviceCall on_device =
        device_call_of(problem.call, {}, std::array{in_parts[0].view, in_parts[1].view}, grid_on_stand_in);
    seen.parts = 0;
    GpuReplay gpu(0, on_device.device_bytes() / 3, 1);
    gpu.run(on_device);
    EXPECT_GE(seen.parts, 3);
    EXPECT_LE(seen.parts, 5);
    EXPECT_EQ(in_parts[0].values(), whole[0].values()) << name_of(variant);
    EXPECT_EQ(in_parts[1].values(), whole[1].values()) << name_of(variant);
  }
}

}  // namespace
}  // namespace msda::replay
