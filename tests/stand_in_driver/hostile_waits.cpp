#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/stand_in_driver/hostile_program.h"

namespace msda::stand_in {
namespace {

// A number that the host and kernels reach.
int* on_host(const Client& client) {
  void* memory = nullptr;
  client.check(client.api().cuMemHostAlloc(&memory, sizeof(int), 0));
  *static_cast<int*>(memory) = 0;
  return static_cast<int*>(memory);
}

void set(int* flag, int value) { std::atomic_ref(*flag).store(value); }

CUstream new_stream(const Client& client) {
  CUstream stream = nullptr;
  client.check(client.api().cuStreamCreate(&stream, kStreamNonBlocking));
  return stream;
}

// Launches while `begin` has made another stream wait until `end`. What grows is more than the launches before needed.
template <class Begin, class End>
void launch_beside(const Client& client, int times, Begin&& begin, End&& end) {
  const ContextState state(client);
  for (int i = 0; i < 3; ++i) state.add_one();
  client.wait_for_all();
  begin(state);
  for (int i = 0; i < times; ++i) state.add_one();
  const CUdeviceptr large = client.allocate(80'000'000);
  const int addend = 5;
  const Argument arguments[] = {large, addend};
  client.check(client.api().cuMemsetD8Async(large, 0, sizeof(int), state.stream));
  state.launch(state.tiny, state.stream, arguments);
  end(state);
  client.wait_for_all();
  std::printf("number %d, %d\n", state.number_now(), client.download<int>(large, 1)[0]);
}

}  // namespace

// A kernel that waits until the host sets a flag, after its launch.
void awaits_the_host(const Client& client, int times) {
  const ContextState state(client);
  const CUfunction await = state.load("survey_await", kPlain);
  int* const flag = on_host(client);
  const Argument arguments[] = {flag, state.number};
  for (int i = 0; i < times; ++i) {
    state.launch(await, state.stream, arguments);
    set(flag, 1);
    client.check(client.api().cuStreamSynchronize(state.stream));
    set(flag, 0);
  }
  std::printf("number %d\n", state.number_now());
}

// A kernel that waits for another one, which is launched later.
void awaits_a_stream(const Client& client, int times) {
  const ContextState state(client);
  const CUfunction await = state.load("survey_await", kPlain), raise = state.load("survey_raise", kPlain);
  const CUstream another = new_stream(client);
  const CUdeviceptr flag = client.upload(std::vector<int>{0});
  const Argument awaited[] = {flag, state.number}, raised[] = {flag};
  for (int i = 0; i < times; ++i) {
    state.launch(await, state.stream, awaited);
    state.launch(raise, another, raised);
    client.wait_for_all();
    client.check(client.api().cuMemsetD8Async(flag, 0, sizeof(int), state.stream));
    client.wait_for_all();
  }
  std::printf("number %d\n", state.number_now());
}

void launches_beside_a_host_function(const Client& client, int times) {
  static std::atomic<bool> is_over{false};
  const auto wait = [](void*) {
    while (!is_over) std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  const CUstream stream = new_stream(client);
  launch_beside(
      client, times, [&](const ContextState&) { client.check(MoreFunctions().host_function(stream, wait, nullptr)); },
      [](const ContextState&) { is_over = true; });
}

void launches_beside_a_value(const Client& client, int times) {
  const CUstream stream = new_stream(client);
  int* const flag = on_host(client);
  launch_beside(
      client, times,
      [&](const ContextState&) {
        client.check(MoreFunctions().wait_value(stream, reinterpret_cast<uintptr_t>(flag), 1, /*at least*/ 0));
      },
      [&](const ContextState&) { set(flag, 1); });
}

// The other stream waits for an event behind a kernel that waits for the host.
void launches_beside_an_event(const Client& client, int times) {
  const CUstream stream = new_stream(client), third = new_stream(client);
  int* const flag = on_host(client);
  launch_beside(
      client, times,
      [&](const ContextState& state) {
        const CUdeviceptr result = client.upload(std::vector<int>{0});
        const Argument arguments[] = {flag, result};
        CUevent event = nullptr;
        client.check(client.api().cuEventCreate(&event, 2));
        state.launch(state.load("survey_await", kPlain), third, arguments);
        client.check(client.api().cuEventRecord(event, third));
        client.check(client.api().cuStreamWaitEvent(stream, event, 0));
      },
      [&](const ContextState&) { set(flag, 1); });
}

void takes_long(const Client& client, int milliseconds) {
  const ContextState state(client);
  const CUfunction function = state.load("survey_take_long", kPlain);
  const Argument arguments[] = {state.number, milliseconds};
  state.launch(function, state.stream, arguments);
  client.wait_for_all();
  std::printf("number %d\n", state.number_now());
}

// Two numbers side by side in an allocation: one belongs to long launches of one thread, the other to short ones of
// another.
void writes_beside_a_long_launch(const Client& client, int milliseconds) {
  const ContextState state(client);
  const CUfunction function = state.load("survey_take_long", kPlain);
  const CUstream another = new_stream(client);
  const CUdeviceptr numbers = client.upload(std::vector<int>(2)), second = numbers + sizeof(int);
  const int addend = 1;
  const Argument long_ones[] = {numbers, milliseconds}, short_ones[] = {second, addend};
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    client.enter_thread();
    for (int i = 0; i < 2; ++i) state.launch(function, state.stream, long_ones);
    client.check(client.api().cuStreamSynchronize(state.stream));
    is_over = true;
  });
  int launches = 0;
  for (; !is_over; ++launches) {
    state.launch(state.tiny, another, short_ones);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  thread.join();
  client.wait_for_all();
  const auto now = client.download<int>(numbers, 2);
  std::printf("numbers %d, %d too few\n", now[0], launches - now[1]);
}

}  // namespace msda::stand_in
