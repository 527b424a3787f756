#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/stand_in_driver/hostile_program.h"

namespace msda::stand_in {
namespace {

// The thread's context for as long as it lives.
class Current {
 public:
  Current(const Client& client, CUcontext context) : client_(client) {
    client.check(MoreFunctions().current_context(&before_));
    client.check(client.api().cuCtxSetCurrent(context));
  }
  ~Current() { client_.api().cuCtxSetCurrent(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Client& client_;
  CUcontext before_ = nullptr;
};

CUcontext context_of_second(const Client& client) {
  CUcontext context = nullptr;
  client.check(client.api().cuDevicePrimaryCtxRetain(&context, 1));
  return context;
}

// Launches that change the first number while another process, as which a thread stands in, counts in the second one.
// It sees whether somebody takes back what it wrote.
void count_beside(const Client& client, int times, CUdeviceptr numbers) {
  const ContextState here(client);
  const CUfunction function = here.load("survey_take_long", kPlain);
  const int milliseconds = 5;
  const Argument arguments[] = {numbers, milliseconds};
  std::atomic<bool> is_over{false};
  int lost = 0;
  std::thread another([&] {
    const std::atomic_ref<int> count(reinterpret_cast<int*>(static_cast<uintptr_t>(numbers))[1]);
    for (int i = count; !is_over; ++i) {
      lost += count != i;
      count = i + 1;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int i = 0; i < times; ++i) {
    here.add_one();
    here.launch(function, here.stream, arguments);
  }
  client.wait_for_all();
  is_over = true;
  another.join();
  std::printf("number %d, lost %d\n", client.download<int>(numbers, 1)[0], lost > 0);
}

}  // namespace

void exports_memory(const Client& client, int times) {
  const CUdeviceptr numbers = client.upload(std::vector<int>(2));
  cuda::IpcHandle handle{};
  client.check(MoreFunctions().export_memory(&handle, numbers + sizeof(int)));
  count_beside(client, times, numbers);
}

void imports_memory(const Client& client, int times) {
  const CUdeviceptr numbers = client.upload(std::vector<int>(2));
  cuda::IpcHandle handle{};
  std::memcpy(&handle, &numbers, sizeof numbers);  // as another process says
  CUdeviceptr imported = 0;
  client.check(MoreFunctions().import_memory(&imported, handle, 1));
  count_beside(client, times, imported);
}

// Each launch of one while the other one's, and what a survey makes of it, may be under way; default streams as well.
void alternates_devices(const Client& client, int times) {
  const CUcontext second = context_of_second(client);
  const ContextState here(client);
  const Current current(client, second);
  const ContextState there(client);
  for (int i = 0; i < times; ++i) {
    for (const CUstream stream : {there.stream, CUstream{nullptr}}) there.add_one(stream);
    if (i % 3 == 0) client.check(client.api().cuMemFree_v2(client.allocate(100)));
    client.enter_thread();
    for (const CUstream stream : {here.stream, CUstream{nullptr}}) here.add_one(stream);
    here.sum();
    client.check(client.api().cuCtxSetCurrent(second));
  }
  std::printf("there %d\n", there.number_now());
  client.enter_thread();
  std::printf("here %d\n", here.number_now());
}

// Launches here that change, or only read, memory of the other device.
void reaches_the_other_device(const Client& client, int times) {
  const CUcontext second = context_of_second(client);
  const ContextState here(client);
  CUdeviceptr number = 0, source = 0;
  {
    const Current current(client, second);
    number = client.upload(std::vector<int>{0});
    source = client.upload(std::vector<int>{7});
  }
  const CUdeviceptr to = client.upload(std::vector<int>{0});
  const int addend = 1;
  const Argument changed[] = {number, addend}, read[] = {to, source};
  const CUfunction reads = here.load("survey_read_host", kPlain);
  for (int i = 0; i < times; ++i) {
    here.launch(here.tiny, here.stream, changed);
    here.launch(reads, here.stream, read);
  }
  client.wait_for_all();
  std::printf("read %d\n", client.download<int>(to, 1)[0]);
  const Current current(client, second);
  std::printf("there %d\n", client.download<int>(number, 1)[0]);
}

void launches_a_graph_of_two_contexts(const Client& client, int times) {
  const CUcontext second = context_of_second(client);
  const GraphApi api = graph_api(Via::kDlsym);
  CUcontext first = nullptr;
  client.check(MoreFunctions().current_context(&first));
  const ContextState here(client);
  client.check(client.api().cuCtxSetCurrent(second));
  const ContextState there(client);
  client.enter_thread();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode last = nullptr;
  client.check(api.cuGraphCreate(&graph, 0));
  for (const auto& [state, context] : {std::pair{&here, first}, {&there, second}}) {
    int addend = 1;
    CUdeviceptr number = state->number;
    void* pointers[] = {&number, &addend};
    const cuda::KernelNodeParameters parameters{state->tiny, {4, 1, 1}, {32, 1, 1}, 0,
                                                pointers,    nullptr,   nullptr,    context};
    const CUgraphNode before = last;
    client.check(api.cuGraphAddKernelNode_v2(&last, graph, &before, before != nullptr, &parameters));
  }
  client.check(api.cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < times; ++i) client.check(api.cuGraphLaunch(exec, here.stream));
  client.wait_for_all();
  std::printf("here %d\n", here.number_now());
  client.check(client.api().cuCtxSetCurrent(second));
  std::printf("there %d\n", there.number_now());
}

// And destroys them: what is known of the first one, and kept for it, must stay. A kernel of it follows pointers.
void makes_contexts(const Client& client, int times) {
  const ContextState here(client);
  const CUfunction follow = here.load("survey_follow_table", kPlain);
  const CUdeviceptr numbers = client.upload(std::vector<int>{10, 20});
  const CUdeviceptr table = client.upload(std::vector<CUdeviceptr>{numbers, numbers + sizeof(int)});
  const int count = 2;
  const Argument arguments[] = {table, count};
  for (int i = 0; i < times; ++i) {
    CUcontext context = nullptr;
    client.check(client.api().cuCtxCreate_v2(&context, 0, 0));
    ContextState(client).add_one();
    client.check(client.api().cuCtxDestroy_v2(context));
    client.enter_thread();
    here.launch(follow, here.stream, arguments);
    here.add_one();
    here.sum();
    client.wait_for_all();
  }
  const auto now = client.download<int>(numbers, 2);
  std::printf("followed %d %d, here %d\n", now[0], now[1], here.number_now());
}

}  // namespace msda::stand_in
