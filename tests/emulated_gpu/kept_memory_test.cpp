// What a call leaves for the next one on its stream (kernels/cuda/common/kept_memory.h), and how often a call asks CUDA
// something (kernels/cuda/common/target.h).
#include "kernels/cuda/common/kept_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cuda/common/launch.cuh"
#include "tests/emulated_gpu/graphs.h"

namespace msda::kernels::cuda {
namespace {

void set_kernel(int* at, int number) {
  if (threadIdx.x == 0) *at = number;
}
void add_kernel(int* at, int number) {
  if (threadIdx.x == 0) *at += number;
}

cudaStream_t kept_stream(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

// In a context of its own, so that no other test's memory is found.
class KeptMemoryTest : public testing::Test {
 protected:
  KeptMemoryTest() {
    static int contexts = 10000;
    emulated_gpu_context = contexts += 1000;
    emulated_gpu_address = emulated_gpu_context;
    emulated_gpu_calls = emulated_gpu_exchanges = emulated_gpu_allocations = emulated_gpu_frees = 0;
    emulated_gpu_changes = emulated_gpu_graph_launches = emulated_gpu_destroyed = 0;
  }
  ~KeptMemoryTest() override {
    emulated_gpu_captures = 0;
    emulated_gpu_address = 0;
  }

  // The memory of a call that needs so many bytes.
  static void* call(cudaStream_t on, size_t bytes = 1000) { return Work(on).allocate(bytes); }

  // A call of two kernels with memory between them, one of which needs much shared memory.
  static void two_kernels(cudaStream_t on, int number) {
    Work work(on);
    int* memory = nullptr;
    Workspace workspace(work);
    workspace.want(memory, 1);
    workspace.take();
    allow_shared(set_kernel, work.target());
    EXPECT_EQ(work.target().device().processors, 132);
    launch("set_kernel", set_kernel, 1, 32, 0, work, memory, number);
    launch("add_kernel", add_kernel, 1, 32, 0, work, memory, 5);
    work.enqueue();
    EXPECT_EQ(*memory, number + 5);
  }
};

TEST_F(KeptMemoryTest, RepeatedCallsAskCudaLittle) {
  two_kernels(kept_stream(1), 7);
  EXPECT_EQ(emulated_gpu_exchanges, 2) << "once for the memory and the graph";
  emulated_gpu_calls = emulated_gpu_exchanges = 0;
  two_kernels(kept_stream(1), 7);
  EXPECT_EQ(emulated_gpu_calls, 6) << "captured? device, context, its number, stream's number, launch";
  EXPECT_EQ(emulated_gpu_exchanges, 0);
  EXPECT_EQ(emulated_gpu_allocations, 1);
  for (int i = 0; i < 31; ++i) two_kernels(kept_stream(1), i + 100);  // now graphs are changed
  emulated_gpu_calls = emulated_gpu_exchanges = 0;
  two_kernels(kept_stream(1), 1000);
  EXPECT_EQ(emulated_gpu_changes, 1);
  EXPECT_EQ(emulated_gpu_exchanges, 2);
  EXPECT_EQ(emulated_gpu_calls, 9);
}

TEST_F(KeptMemoryTest, ACallOfOneKernelOnlyLaunchesIt) {
  int at = 0;
  Work work(kept_stream(1));
  launch("set_kernel", set_kernel, 1, 32, 0, work, &at, 3);
  work.enqueue();
  EXPECT_EQ(at, 3);
  EXPECT_EQ(emulated_gpu_calls, 1);
}

TEST_F(KeptMemoryTest, TheThreadsCaptureModeIsWhatItWas) {
  two_kernels(kept_stream(1), 7);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  two_kernels(kept_stream(2), 7);
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(mode, cudaStreamCaptureModeThreadLocal);
}

TEST_F(KeptMemoryTest, TheStreamsNextCallGetsTheMemory) {
  void* const small = call(kept_stream(1));
  EXPECT_EQ(call(kept_stream(1)), small);
  EXPECT_EQ(call(kept_stream(1), 10), small);
  EXPECT_EQ(emulated_gpu_allocations, 1);
  EXPECT_EQ(emulated_gpu_frees, 0);
  void* const large = call(kept_stream(1), 5000);
  EXPECT_EQ(emulated_gpu_allocations, 2);
  EXPECT_EQ(emulated_gpu_frees, 1) << "one block is kept";
  EXPECT_EQ(call(kept_stream(1), 10), large);
  EXPECT_EQ(call(kept_stream(1), 5000), large);
  EXPECT_EQ(emulated_gpu_allocations, 2);
}

TEST_F(KeptMemoryTest, StreamsDoNotShareIt) {
  std::vector<void*> of_stream;
  for (uintptr_t i = 0; i < 3; ++i) of_stream.push_back(call(kept_stream(i)));
  EXPECT_EQ(std::set<void*>(of_stream.begin(), of_stream.end()).size(), 3u);
  for (uintptr_t i = 0; i < 3; ++i) EXPECT_EQ(call(kept_stream(i)), of_stream[i]);
  EXPECT_EQ(emulated_gpu_allocations, 3);
}

TEST_F(KeptMemoryTest, CallsThatAreMadeAtATimeDoNotShareIt) {
  void* larger = nullptr;
  {
    Work work(kept_stream(1)), another(kept_stream(1));
    larger = work.allocate(2000);
    EXPECT_NE(another.allocate(1000), larger);
  }
  EXPECT_EQ(emulated_gpu_frees, 1);
  EXPECT_EQ(call(kept_stream(1), 1), larger);
}

TEST_F(KeptMemoryTest, ACallsFurtherMemoryIsFreed) {
  const auto twice = [] {
    Work work(kept_stream(1));
    void* const first = work.allocate(1000);
    EXPECT_NE(work.allocate(10), first);
    return first;
  };
  void* const first = twice();
  EXPECT_EQ(emulated_gpu_frees, 1);
  EXPECT_EQ(twice(), first);
  EXPECT_EQ(emulated_gpu_allocations, 3);
}

TEST_F(KeptMemoryTest, MuchMemoryIsNotKept) {
  void* const kept = call(kept_stream(1), kMostKeptBytes);
  call(kept_stream(1), kMostKeptBytes + 1);
  EXPECT_EQ(emulated_gpu_frees, 1);
  EXPECT_EQ(call(kept_stream(1)), kept);
  Work work(kept_stream(1));
  work.allocate(kMostKeptBytes + 1);
  EXPECT_EQ(work.allocate(1000), kept);
}

TEST_F(KeptMemoryTest, AllStreamsTogetherKeepALimitedAmount) {
  void* const first = call(kept_stream(1), kMostKeptBytes);
  void* const second = call(kept_stream(2), kMostKeptOfContext - kMostKeptBytes);
  EXPECT_EQ(emulated_gpu_frees, 0);
  call(kept_stream(3), 1000);
  EXPECT_EQ(emulated_gpu_frees, 1);
  EXPECT_EQ(call(kept_stream(1)), first);
  EXPECT_EQ(call(kept_stream(2)), second);
  EXPECT_EQ(emulated_gpu_frees, 1);
}

TEST_F(KeptMemoryTest, CapturedStreamsAllocate) {
  void* const kept = call(kept_stream(1));
  emulated_gpu_captures = 1;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_NE(call(kept_stream(1)), kept);
    EXPECT_EQ(emulated_gpu_allocations, 1 + i);
    EXPECT_EQ(emulated_gpu_frees, i);
  }
  emulated_gpu_captures = 0;
  EXPECT_EQ(call(kept_stream(1)), kept);
}

TEST_F(KeptMemoryTest, WithoutAContextsNumberNothingIsKept) {
  emulated_gpu_context = 0;
  for (int i = 1; i <= 3; ++i) {
    two_kernels(kept_stream(1), i);
    EXPECT_EQ(emulated_gpu_frees, i);
  }
  EXPECT_EQ(emulated_gpu_graph_launches, 0);
}

TEST_F(KeptMemoryTest, AResetFreesIt) {
  for (int i = 0; i < 100; ++i) {
    two_kernels(kept_stream(1), 1);
    two_kernels(kept_stream(2), 2);
    EXPECT_EQ(emulated_gpu_allocations, 2 * (i + 1)) << "memory of the context before is used";
    EXPECT_EQ(emulated_gpu_frees, 2 * i) << "the pool's memory is left by a reset";
    ++emulated_gpu_context;  // at the same address
  }
  EXPECT_EQ(emulated_gpu_destroyed, 0) << "the driver has destroyed the graphs";
}

TEST_F(KeptMemoryTest, ContextsThatLiveAtATimeKeepTheirOwn) {
  const int first = emulated_gpu_context;
  const auto enter = [first](int context) { emulated_gpu_context = emulated_gpu_address = first + context; };
  std::vector<void*> of_context;
  for (int i = 0; i < 64; ++i) {
    enter(i);
    of_context.push_back(call(kept_stream(1)));
  }
  for (int i = 0; i < 64; ++i) {
    enter(i);
    EXPECT_EQ(call(kept_stream(1)), of_context[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(emulated_gpu_allocations, 64);
  for (int i = 64; i < 200; ++i) {
    enter(i);
    call(kept_stream(1));
  }
  EXPECT_EQ(emulated_gpu_frees, 0) << "nobody knows whether the first contexts' work has ended";
}

TEST_F(KeptMemoryTest, TheFirstStreamsKeepTheirs) {
  std::vector<void*> of_stream;
  for (uintptr_t i = 0; i < 16; ++i) of_stream.push_back(call(kept_stream(i)));
  for (uintptr_t i = 16; i < 40; ++i) call(kept_stream(i));
  EXPECT_EQ(emulated_gpu_frees, 40 - 16);
  for (uintptr_t i = 0; i < 16; ++i) EXPECT_EQ(call(kept_stream(i)), of_stream[i]);
  EXPECT_EQ(emulated_gpu_allocations, 40);
}

TEST_F(KeptMemoryTest, ThreadsShareStreams) {
  std::vector<std::thread> threads;
  std::atomic<bool> begin{false};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      while (!begin) std::this_thread::yield();
      for (int j = 0; j < 200; ++j) {
        Work work(kept_stream(static_cast<uintptr_t>(i % 2)));
        auto* const memory = static_cast<int*>(work.allocate(static_cast<size_t>(100 + 40 * j)));
        *memory = 1000 * i + j;
        std::this_thread::yield();
        EXPECT_EQ(*memory, 1000 * i + j) << "another call has the same memory";
      }
    });
  }
  begin = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(emulated_gpu_allocations - emulated_gpu_frees, 2);
}

}  // namespace
}  // namespace msda::kernels::cuda
