// What a call enqueues (kernels/cuda/common/work.h): the order of its kernels, and the graphs that it uses for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cuda/common/launch.cuh"
#include "tests/emulated_gpu/graphs.h"

namespace msda::kernels::cuda {
namespace {

// Numbers in the order in which kernels wrote them.
struct Log {
  int count = 0;
  int numbers[100];
  std::vector<int> all() const { return {numbers, numbers + count}; }
};

void write_kernel(Log* log, int number) {
  if (threadIdx.x == 0) log->numbers[log->count++] = number;
}
void write_negative_kernel(char, Log* log, int64_t number) {
  if (threadIdx.x == 0) log->numbers[log->count++] = -static_cast<int>(number);
}

void write(Log& log, int number, Work& work) { launch("write_kernel", write_kernel, 1, 32, 0, work, &log, number); }
void write_negative(Log& log, int number, Work& work) {
  launch("write_negative_kernel", write_negative_kernel, 1, 32, 0, work, 'x', &log, number);
}

cudaStream_t stream(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

// In a context of its own, so that no other test's graphs are found.
class WorkTest : public testing::Test {
 protected:
  WorkTest() {
    ++emulated_gpu_context;
    emulated_gpu_forks = emulated_gpu_graph_launches = emulated_gpu_instances = emulated_gpu_destroyed =
        emulated_gpu_changes = 0;
  }
  ~WorkTest() override { emulated_gpu_captures = emulated_gpu_refuses = 0; }

  // A call that writes these numbers.
  static void call(cudaStream_t on, const std::vector<int>& numbers) {
    Log log;
    Work work(on);
    for (const int number : numbers) number < 0 ? write_negative(log, -number, work) : write(log, number, work);
    work.enqueue();
    EXPECT_EQ(log.all(), numbers);
  }
};

TEST_F(WorkTest, OneKernelTakesNoGraphAndSeveralTakeOne) {
  call(stream(1), {7});
  EXPECT_EQ(emulated_gpu_graph_launches, 0);
  call(stream(1), {1, 2, 3});
  EXPECT_EQ(emulated_gpu_graph_launches, 1);
  EXPECT_EQ(emulated_gpu_instances, 1);
}

TEST_F(WorkTest, WhatIsRepeatedNeedNotBeSet) {
  Log log;
  for (int i = 0; i < 96; ++i) {
    log.count = 0;
    Work work(stream(1));
    write(log, 1, work);
    write(log, i % 32, work);
    work.enqueue();
    EXPECT_EQ(log.all().back(), i % 32);
  }
  EXPECT_EQ(emulated_gpu_instances, 32);
  EXPECT_EQ(emulated_gpu_changes, 0);
}

TEST_F(WorkTest, GraphsAreUsedAgainForOtherKernelsAndParameters) {
  Log log;
  const auto enqueue = [&](int second, bool is_negative) {
    log.count = 0;
    Work work(stream(1));
    write(log, 1, work);
    is_negative ? write_negative(log, second, work) : write(log, second, work);
    work.enqueue();
    EXPECT_EQ(log.all(), (std::vector{1, is_negative ? -second : second}));
  };
  for (int i = 0; i < 32; ++i) enqueue(i, false);
  EXPECT_EQ(emulated_gpu_changes, 0);
  enqueue(100, false);
  EXPECT_EQ(emulated_gpu_changes, 1) << "what is the same need not be set";
  enqueue(100, true);
  EXPECT_EQ(emulated_gpu_changes, 2);
  enqueue(2, false);
  EXPECT_EQ(emulated_gpu_changes, 2) << "those that were used least recently are changed";
  enqueue(0, false);
  EXPECT_EQ(emulated_gpu_changes, 3);
  EXPECT_EQ(emulated_gpu_instances, 32);
}

// Each part of a sequence changes the digest of the whole, and only what waits for what that of the shape.
TEST_F(WorkTest, SequencesAreFoundByTheirDigests) {
  const auto digests = [](const Launch& first, const Launch& second, int number, bool branch = false,
                          uint64_t given = 1) {
    Sequence sequence;
    const auto add_first = [&] { sequence.add(first, number); };
    const auto add_second = [&] { sequence.add(second, char{1}, 2.5); };
    branch ? sequence.beside(add_first, add_second) : (add_first(), add_second());
    return sequence.digests(given);
  };
  const Launch launch{"a", "kernel", dim3(1, 2, 3), 32, 100};
  const Sequence::Digests usual = digests(launch, launch, 7);
  EXPECT_EQ(digests(launch, launch, 7).whole, usual.whole);
  std::set<uint64_t> wholes{usual.whole};
  const auto expect_other = [&](const Sequence::Digests& another, bool has_shape) {
    EXPECT_TRUE(wholes.insert(another.whole).second) << wholes.size();
    EXPECT_EQ(another.shape == usual.shape, has_shape) << wholes.size();
  };
  Launch others[6] = {launch, launch, launch, launch, launch, launch};
  others[0].kernel = "another kernel";
  others[1].grid.x = others[2].grid.y = others[3].grid.z = 9;
  others[4].threads = 64;
  others[5].shared_bytes = 101;
  for (const Launch& another : others) {
    expect_other(digests(another, launch, 7), true);
    expect_other(digests(launch, another, 7), true);
  }
  expect_other(digests(launch, launch, 8), true);
  expect_other(digests(launch, launch, 7, true), false);
  expect_other(digests(launch, launch, 7, false, 2), false);
}

TEST_F(WorkTest, BranchesDoNotWaitForEachOther) {
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 12; ++i) {
    Log log;
    Work work(stream(1));
    write(log, 1, work);
    work.beside(
        [&] {
          write(log, 20, work);
          write(log, 21, work);
        },
        [&] {
          write(log, 30, work);
          write(log, 31, work);
        });
    write(log, 4, work);
    work.enqueue();
    const std::vector<int> order = log.all();
    ASSERT_EQ(order.size(), 6u);
    const auto place = [&](int number) { return std::find(order.begin(), order.end(), number) - order.begin(); };
    EXPECT_EQ(place(1), 0);
    EXPECT_EQ(place(4), 5);
    EXPECT_LT(place(20), place(21));
    EXPECT_LT(place(30), place(31));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 2u);
  EXPECT_EQ(emulated_gpu_forks, 12);
}

TEST_F(WorkTest, BranchesMayBeEmptyOrBegin) {
  for (const bool begins : {false, true}) {
    Log log;
    Work work(stream(1));
    if (!begins) write(log, 1, work);
    work.beside([&] { write(log, 2, work); }, [] {});
    work.beside([] {}, [&] { write(log, 3, work); });
    write(log, 4, work);
    work.enqueue();
    EXPECT_EQ(log.all().back(), 4);
    EXPECT_EQ(log.count, begins ? 3 : 4);
  }
}

TEST_F(WorkTest, CallsOfAnotherShapeTakeAnotherGraph) {
  call(stream(1), {1, 2});
  call(stream(1), {1, 2, 3});
  Log log;
  Work work(stream(1));
  work.beside([&] { write(log, 1, work); }, [&] { write(log, 2, work); });
  work.enqueue();
  EXPECT_EQ(log.count, 2);
  EXPECT_EQ(emulated_gpu_instances, 3);
}

TEST_F(WorkTest, EachStreamHasAGraphOfItsOwn) {
  for (int i = 0; i < 5; ++i) {
    call(stream(1), {1, 2});
    call(stream(2), {1, 2});
  }
  EXPECT_EQ(emulated_gpu_instances, 2);
}

TEST_F(WorkTest, TheGraphsOfAContextThatIsGoneAreLeftAlone) {
  for (int i = 0; i < 200; ++i) {
    call(stream(1), {1, 2});
    call(nullptr, {3, 4});
    ++emulated_gpu_context;  // the stand-in ends the program if such a graph is used or destroyed
  }
  EXPECT_EQ(emulated_gpu_instances, 400);
  EXPECT_EQ(emulated_gpu_destroyed, 0);
}

TEST_F(WorkTest, TheOldestGraphsAreDestroyed) {
  for (uintptr_t i = 1; i <= 400; ++i) {
    call(stream(i), {1, 2});
    call(stream(1000), {3, 4});
  }
  EXPECT_EQ(emulated_gpu_instances, 401);
  EXPECT_EQ(emulated_gpu_destroyed, 401 - 256);
  call(stream(400), {1, 2});
  call(stream(1000), {3, 4});
  EXPECT_EQ(emulated_gpu_instances, 401) << "those are kept that were used last";
}

TEST_F(WorkTest, WithoutGraphsKernelsAreLaunched) {
  for (const int refused : {kRefusesInstances, kRefusesParameters, kRefusesLaunches}) {
    emulated_gpu_refuses = kRefusesNothing;
    call(stream(1), {1, 2});
    emulated_gpu_refuses = refused;
    call(stream(1), {3, 4});
    call(stream(2), {5, -6});
  }
  emulated_gpu_refuses = kRefusesNothing;
  emulated_gpu_graph_launches = 0;
  call(stream(1), {7, 8});
  EXPECT_EQ(emulated_gpu_graph_launches, 1);
}

TEST_F(WorkTest, StreamsThatAreCapturedTakeKernels) {
  emulated_gpu_captures = 1;
  EXPECT_FALSE(Work(stream(1)).can_fork());
  call(stream(1), {1, 2, 3});
  EXPECT_EQ(emulated_gpu_graph_launches, 0);
}

TEST_F(WorkTest, LongSequencesAreEnqueuedInParts) {
  std::vector<int> numbers(80);
  for (int i = 0; i < 80; ++i) numbers[static_cast<size_t>(i)] = i;
  call(stream(1), numbers);
  EXPECT_EQ(emulated_gpu_graph_launches, 3);
}

TEST_F(WorkTest, WhatOthersEnqueueComesAfterWhatWasAdded) {
  Log log;
  Work work(stream(1));
  write(log, 1, work);
  work.beside(
      [&] {
        write(log, 2, work);
        EXPECT_EQ(work.stream(), stream(1));
        EXPECT_EQ(log.all(), (std::vector{1, 2}));
        write(log, 3, work);
      },
      [&] { write(log, 4, work); });
  write(log, 5, work);
  work.enqueue();
  EXPECT_EQ(log.count, 5);
  EXPECT_EQ(log.numbers[4], 5);
}

TEST_F(WorkTest, WhatIsNotEnqueuedIsLost) {
  Log log;
  {
    Work work(stream(1));
    write(log, 1, work);
    write(log, 2, work);
  }
  EXPECT_EQ(log.count, 0);
}

TEST_F(WorkTest, ThreadsShareStreams) {
  std::vector<std::thread> threads;
  std::atomic<bool> begin{false};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      while (!begin) std::this_thread::yield();
      for (int j = 0; j < 100; ++j) call(stream(static_cast<uintptr_t>(i % 2)), {i, j, i + j});
    });
  }
  begin = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(emulated_gpu_graph_launches, 600);
  EXPECT_LE(emulated_gpu_instances, 2 * 32 + 6) << "more than are kept for each stream, and one for each thread";
}

TEST_F(WorkTest, ClearsWhatItIsAskedTo) {
  for (size_t begin = 0; begin < 20; ++begin) {
    for (const size_t bytes : {0, 1, 3, 15, 16, 17, 40, 5000}) {
      alignas(16) char memory[6000];
      std::fill(std::begin(memory), std::end(memory), 'x');
      Work work(stream(1));
      clear(memory + begin, static_cast<int64_t>(bytes), work);
      work.enqueue();
      EXPECT_EQ(std::count(memory, std::end(memory), 0), static_cast<ptrdiff_t>(bytes));
      EXPECT_EQ(std::count(memory + begin, memory + begin + bytes, 0), static_cast<ptrdiff_t>(bytes));
    }
  }
}

}  // namespace
}  // namespace msda::kernels::cuda
