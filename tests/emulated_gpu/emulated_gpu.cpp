// Threads as fibers: each runs until it waits, then the next one runs. Each block begins with another thread, so that
// dependence on their order shows.
#undef _FORTIFY_SOURCE  // its longjmp takes another fiber's stack for a mistake
#include "tests/emulated_gpu/emulated_gpu.h"

#include <ucontext.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 gridDim, blockDim;

__attribute__((visibility("default"))) int emulated_gpu_launches = 0;  // for tests to read

namespace emulated_gpu {
namespace {

constexpr size_t kStackBytes = 64 << 10, kAlignment = 256;
constexpr unsigned kMostThreads = 1024, kGroup = 8;

// A barrier for all threads that have not ended.
struct Barrier {
  unsigned threads = 0, arrived = 0, generation = 0;
  void pass_if_all() {
    if (threads == 0 || arrived < threads) return;
    arrived = 0;
    ++generation;
  }
};

// A context starts a fiber, jumps go on with it: unlike swapcontext() they make no system call.
struct Fiber {
  ucontext_t context;
  jmp_buf jump;
  bool started = false;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  unsigned number = 0;
  bool ended = false;
  const Barrier* barrier = nullptr;  // where it waits, or waited last
  unsigned generation = 0;           // the barrier's when it arrived

  bool can_run() const { return !ended && (barrier == nullptr || barrier->generation != generation); }
};

struct Block {
  Barrier all, warps[kMostThreads / kWarp], groups[kMostThreads / kGroup];
  uint64_t slots[kMostThreads / kWarp][kWarp];
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<char> shared;
  Fiber* running = nullptr;
  jmp_buf scheduler;
  const std::function<void()>* thread = nullptr;
} block;

void run_others() {
  if (_setjmp(block.running->jump) == 0) _longjmp(block.scheduler, 1);
}

// Runs a fiber until it waits.
[[gnu::noinline]] void run(Fiber& fiber) {
  block.running = &fiber;
  threadIdx = {fiber.number, 0, 0};
  if (_setjmp(block.scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.jump, 1);
  fiber.started = true;
  setcontext(&fiber.context);
}

void wait_at(Barrier& barrier) {
  Fiber& fiber = *block.running;
  fiber.barrier = &barrier;
  fiber.generation = barrier.generation;
  ++barrier.arrived;
  barrier.pass_if_all();
  if (!fiber.can_run()) run_others();
}

void leave(Barrier& barrier) {
  --barrier.threads;
  barrier.pass_if_all();
}

// A fiber is a thread of one block after the other: to make a context takes a system call.
void run_threads() {
  for (;;) {
    (*block.thread)();
    block.running->ended = true;
    leave(block.all);
    leave(block.warps[block.running->number / kWarp]);
    leave(block.groups[block.running->number / kGroup]);
    run_others();
  }
}

std::unique_ptr<Fiber> make_fiber(unsigned number) {
  auto fiber = std::make_unique<Fiber>();
  fiber->number = number;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, run_threads, 0);
  return fiber;
}

void run_block(unsigned threads, unsigned first) {
  block.all = {threads, 0, 0};
  for (unsigned warp = 0; warp < threads / kWarp; ++warp) block.warps[warp] = {kWarp, 0, 0};
  for (unsigned group = 0; group < threads / kGroup; ++group) block.groups[group] = {kGroup, 0, 0};
  while (block.fibers.size() < threads) block.fibers.push_back(make_fiber(block.fibers.size()));
  for (unsigned i = 0; i < threads; ++i) {
    block.fibers[i]->ended = false;
    block.fibers[i]->barrier = nullptr;
  }
  for (unsigned left = threads; left > 0;) {
    bool any_ran = false;
    for (unsigned i = 0; i < threads; ++i) {
      Fiber& fiber = *block.fibers[(first + i) % threads];
      if (!fiber.can_run()) continue;
      run(fiber);
      any_ran = true;
      if (fiber.ended) --left;
    }
    if (!any_ran) {
      std::fputs("emulated_gpu: the threads of a block wait for each other\n", stderr);
      std::abort();
    }
  }
}

}  // namespace

namespace {
std::mutex known_mutex;
std::map<const void*, std::function<Bound(void**)>> known;
}  // namespace

void remember(const void* kernel, std::function<Bound(void**)> bind) {
  const std::lock_guard lock(known_mutex);
  known.try_emplace(kernel, std::move(bind));
}
Bound bound(const void* kernel, void** parameters) {
  const std::lock_guard lock(known_mutex);
  return known.at(kernel)(parameters);
}

void launch(dim3 grid, unsigned threads, size_t shared_bytes, const std::function<void()>& thread) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++emulated_gpu_launches;
  if (threads % kWarp != 0 || threads > kMostThreads) {
    std::fprintf(stderr, "emulated_gpu: a block of %u threads\n", threads);
    std::abort();
  }
  block.thread = &thread;
  block.shared.assign(shared_bytes + kAlignment, '\xab');  // so that reading it uninitialized shows
  gridDim = grid;
  blockDim = dim3(threads);
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      blockIdx = {x, y, 0};
      run_block(threads, x * 2654435761u % threads);
    }
  }
}

void* dynamic_shared() {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(block.shared.data()) + kAlignment - 1) / kAlignment *
                                 kAlignment);
}

void block_barrier() { wait_at(block.all); }
void warp_barrier() { wait_at(block.warps[block.running->number / kWarp]); }
void lanes_barrier(unsigned lanes) {
  if (lanes == ~0u) return warp_barrier();
  if (lanes != 0xffu << lane() / kGroup * kGroup) {
    std::fprintf(stderr, "emulated_gpu: a shuffle of lanes %#x, called by lane %u\n", lanes, lane());
    std::abort();
  }
  wait_at(block.groups[block.running->number / kGroup]);
}
unsigned lane() { return block.running->number % kWarp; }
uint64_t* warp_slots() { return block.slots[block.running->number / kWarp]; }

}  // namespace emulated_gpu
