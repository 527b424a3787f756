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
  const Place place(client);
  for (int i = 0; i < 3; ++i) place.add_one();
  client.wait_for_all();
  begin(place);
  for (int i = 0; i < times; ++i) place.add_one();
  const CUdeviceptr large = client.allocate(80'000'000);
  const int addend = 5;
  const Argument arguments[] = {large, addend};
  client.check(client.api().cuMemsetD8Async(large, 0, sizeof(int), place.stream));
  place.launch(place.tiny, place.stream, arguments);
  end(place);
  client.wait_for_all();
  std::printf("number %d, %d\n", place.number_now(), client.download<int>(large, 1)[0]);
}

}  // namespace

// A kernel that waits until the host sets a flag, after its launch.
void awaits_the_host(const Client& client, int times) {
  const Place place(client);
  const CUfunction await = place.load("survey_await", kPlain);
  int* const flag = on_host(client);
  const Argument arguments[] = {flag, place.number};
  for (int i = 0; i < times; ++i) {
    place.launch(await, place.stream, arguments);
    set(flag, 1);
    client.check(client.api().cuStreamSynchronize(place.stream));
    set(flag, 0);
  }
  std::printf("number %d\n", place.number_now());
}

// A kernel that waits for another one, which is launched later.
void awaits_a_stream(const Client& client, int times) {
  const Place place(client);
  const CUfunction await = place.load("survey_await", kPlain), raise = place.load("survey_raise", kPlain);
  const CUstream other = new_stream(client);
  const CUdeviceptr flag = client.upload(std::vector<int>{0});
  const Argument awaited[] = {flag, place.number}, raised[] = {flag};
  for (int i = 0; i < times; ++i) {
    place.launch(await, place.stream, awaited);
    place.launch(raise, other, raised);
    client.wait_for_all();
    client.check(client.api().cuMemsetD8Async(flag, 0, sizeof(int), place.stream));
    client.wait_for_all();
  }
  std::printf("number %d\n", place.number_now());
}

void launches_beside_a_host_function(const Client& client, int times) {
  static std::atomic<bool> is_over{false};
  const auto wait = [](void*) {
    while (!is_over) std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  const CUstream other = new_stream(client);
  launch_beside(
      client, times, [&](const Place&) { client.check(MoreFunctions().host_function(other, wait, nullptr)); },
      [](const Place&) { is_over = true; });
}

void launches_beside_a_value(const Client& client, int times) {
  const CUstream other = new_stream(client);
  int* const flag = on_host(client);
  launch_beside(
      client, times,
      [&](const Place&) {
        client.check(MoreFunctions().wait_value(other, reinterpret_cast<uintptr_t>(flag), 1, /*at least*/ 0));
      },
      [&](const Place&) { set(flag, 1); });
}

// The other stream waits for an event behind a kernel that waits for the host.
void launches_beside_an_event(const Client& client, int times) {
  const CUstream other = new_stream(client), third = new_stream(client);
  int* const flag = on_host(client);
  launch_beside(
      client, times,
      [&](const Place& place) {
        const CUdeviceptr result = client.upload(std::vector<int>{0});
        const Argument arguments[] = {flag, result};
        CUevent event = nullptr;
        client.check(client.api().cuEventCreate(&event, 2));
        place.launch(place.load("survey_await", kPlain), third, arguments);
        client.check(client.api().cuEventRecord(event, third));
        client.check(client.api().cuStreamWaitEvent(other, event, 0));
      },
      [&](const Place&) { set(flag, 1); });
}

void takes_long(const Client& client, int milliseconds) {
  const Place place(client);
  const CUfunction function = place.load("survey_take_long", kPlain);
  const Argument arguments[] = {place.number, milliseconds};
  for (int i = 0; i < 3; ++i) {
    place.launch(function, place.stream, arguments);
    client.wait_for_all();
  }
  std::printf("number %d\n", place.number_now());
}

// Two numbers side by side in an allocation: one belongs to long launches of one thread, the other to short ones of
// another.
void writes_beside_a_long_launch(const Client& client, int milliseconds) {
  const Place place(client);
  const CUfunction function = place.load("survey_take_long", kPlain);
  const CUstream other = new_stream(client);
  const CUdeviceptr numbers = client.upload(std::vector<int>(2)), second = numbers + sizeof(int);
  const int addend = 1;
  const Argument long_ones[] = {numbers, milliseconds}, short_ones[] = {second, addend};
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    client.enter_thread();
    for (int i = 0; i < 2; ++i) place.launch(function, place.stream, long_ones);
    client.check(client.api().cuStreamSynchronize(place.stream));
    is_over = true;
  });
  int launches = 0;
  for (; !is_over; ++launches) {
    place.launch(place.tiny, other, short_ones);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  thread.join();
  client.wait_for_all();
  const auto now = client.download<int>(numbers, 2);
  std::printf("numbers %d, %d too few\n", now[0], launches - now[1]);
}

}  // namespace msda::stand_in
