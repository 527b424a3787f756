// usage: stand_in_hostile_client WORD[:NUMBER]... Launches kernels, and does in between what programs do that are hard
// to run under a survey: ends in odd ways, forks, lets go of what launches under way use, fails, waits. Prints what the
// launches left.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>

#include "tests/stand_in_driver/hostile_program.h"

namespace msda::stand_in {

ContextState::ContextState(const Client& given) : client(given) {
  client.check(client.api().cuStreamCreate(&stream, kStreamNonBlocking));
  tiny = load("tiny_kernel", kPlain, &module);
  drawn = load("survey_drawn_sum", kFloatReduction);
  number = client.upload(std::vector<int>{0});
  std::vector<float> x;
  for (int i = 0; i < 1000; ++i) x.push_back(1.0f / static_cast<float>(i + 1));
  values = client.upload(x);
  total = client.upload(std::vector<float>{0});
}

CUfunction ContextState::load(const std::string& kernel, Code code, CUmodule* its_module) const {
  CUmodule loaded = nullptr;
  CUfunction function = nullptr;
  client.check(client.api().cuModuleLoadData(&loaded, image_of(kernel, code, false).c_str()));
  client.check(client.api().cuModuleGetFunction(&function, loaded, kernel.c_str()));
  if (its_module != nullptr) *its_module = loaded;
  return function;
}

void ContextState::add_one(CUstream on) const {
  const int addend = 1;
  const Argument arguments[] = {number, addend};
  launch(tiny, on, arguments);
}

void ContextState::sum() const {
  const int count = 1000;
  const Argument arguments[] = {total, values, count};
  launch(drawn, stream, arguments);
}

int ContextState::number_now() const {
  client.check(client.api().cuCtxSynchronize_v2(nullptr));
  return client.download<int>(number, 1)[0];
}

MoreFunctions::MoreFunctions() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (!function) throw std::runtime_error(name);
  };
  find(query, "cuStreamQuery");
  find(host_function, "cuLaunchHostFunc");
  find(wait_value, "cuStreamWaitValue32_v2");
  find(current_context, "cuCtxGetCurrent");
  find(export_memory, "cuIpcGetMemHandle");
  find(import_memory, "cuIpcOpenMemHandle_v2");
}

namespace {

void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Some that run once more, some that vary, and a graph.
void launches(const Client& client, int times) {
  const ContextState state(client);
  const GraphApi api = graph_api(Via::kDlsym);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  client.check(api.cuStreamBeginCapture_v2(state.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  state.add_one();
  state.sum();
  client.check(api.cuStreamEndCapture(state.stream, &graph));
  client.check(api.cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < times; ++i) {
    state.add_one();
    state.sum();
    client.check(api.cuGraphLaunch(exec, state.stream));
  }
  std::printf("number %d\n", state.number_now());
}

// Prints a line once each launch is done.
// After ten launches asks for SIGALRM in so many microseconds, unless that is 0.
void run_until_alarm(const Client& client, int microseconds) {
  const ContextState state(client);
  for (int i = 0;; ++i) {
    if (i == 10) ualarm(static_cast<useconds_t>(microseconds), 0);
    state.add_one();
    state.sum();
    client.wait_for_all();
    if (write(STDOUT_FILENO, "x\n", 2) != 2) _exit(1);
  }
}

void runs_on(const Client& client, int) { run_until_alarm(client, 0); }

void closes_descriptors(const Client& client, int) {
  const ContextState state(client);
  state.add_one();
  closefrom(3);
  int files[40];
  for (int i = 0; i < 40; ++i) {
    files[i] = open(("own." + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(files[i], "precious", 8) != 8) throw std::runtime_error("write");
  }
  for (int i = 0; i < 5; ++i) state.add_one(), state.sum();
  int changed = 0;
  for (const int file : files) {
    char text[16] = {};
    changed += pread(file, text, sizeof text, 0) != 8 || std::string(text) != "precious";
  }
  std::printf("number %d, changed %d\n", state.number_now(), changed);
}

void limits_file_sizes(const Client& client, int bytes) {
  const rlimit limit{static_cast<rlim_t>(bytes), RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
  launches(client, 5);
}

void vforks(const Client& client, int times) {
  const ContextState state(client);
  for (int i = 0; i < times; ++i) {
    state.add_one();
    const pid_t child = vfork();
    if (child == 0) {
      execl("/nonexistent", "x", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%d ", WEXITSTATUS(status));
  }
  std::printf("number %d\n", state.number_now());
}

// In a forked child. Checks that use the driver print what it says: it works in no child.
int end_child(const Client& client, const ContextState& state, int kind) {
  const Api& api = client.api();
  if (kind == 0) _exit(0);
  if (kind == 1) exit(0);
  CUdeviceptr memory = 0;
  int addend = 1;
  CUdeviceptr number = state.number;
  void* pointers[] = {&number, &addend};
  const CUresult results[] = {api.cuMemAlloc_v2(&memory, 100),
                              api.cuLaunchKernel(state.tiny, 1, 1, 1, 1, 1, 1, 0, state.stream, pointers, nullptr),
                              api.cuCtxSynchronize_v2(nullptr),
                              api.cuMemFree_v2(number),
                              api.cuStreamDestroy_v2(state.stream),
                              api.cuModuleUnload(state.module),
                              api.cuDevicePrimaryCtxReset_v2(0)};
  for (const CUresult result : results) {
    if (result != CUDA_ERROR_NOT_INITIALIZED) _exit(1);
  }
  if (kind == 2) _exit(0);
  exit(0);
}

// While threads launch, and allocate and free.
void forks(const Client& client, int times) {
  const ContextState state(client);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  std::atomic<int> launched{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      client.enter_thread();
      while (!is_over) {
        state.add_one();
        ++launched;
        state.sum();
        client.check(client.api().cuMemFree_v2(client.allocate(100)));
      }
    });
  }
  int failed = 0;
  std::fflush(stdout);
  for (int i = 0; i < times; ++i) {
    sleep_for(3);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends a child that waits for ever
      end_child(client, state, i % 4);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) std::fprintf(stderr, "a child of kind %d ended with status %d\n", i % 4, status);
    failed += status != 0;
  }
  is_over = true;
  for (auto& thread : threads) thread.join();
  std::printf("failed %d, %d too few\n", failed, launched - state.number_now());
}

// While a thread launches, which has launched so many sums.
void exits_beside_a_thread(const Client& client, int sums) {
  static const ContextState state(client);
  static std::atomic<int> launched{0};
  std::thread([&client] {
    client.enter_thread();
    for (;; ++launched) state.add_one(), state.sum();
  }).detach();
  while (launched < sums) sleep_for(1);
  exit(5);
}

void exits_from_a_handler(const Client& client, int microseconds) {
  std::signal(SIGALRM, [](int) { exit(7); });
  run_until_alarm(client, microseconds);
}

void ends_from_a_handler(const Client& client, int microseconds) {
  std::signal(SIGALRM, [](int) { _exit(7); });
  run_until_alarm(client, microseconds);
}

void raises(const Client& client, int number) {
  launches(client, 5);
  const ContextState state(client);
  for (int i = 0; i < 4; ++i) state.add_one();
  std::fflush(stdout);
  std::raise(number);
}

// What launches under way use goes away; the program does not wait.

void resets(const Client& client, int times) {
  for (int i = 0; i < times; ++i) {
    const ContextState state(client);
    for (int k = 0; k < 4; ++k) state.add_one(), state.sum();
    if (i % 2 == 0) std::printf("number %d\n", state.number_now());
    client.check(client.api().cuDevicePrimaryCtxReset_v2(0));
  }
}

void unloads(const Client& client, int times) {
  ContextState state(client);
  for (int i = 0; i < times; ++i) {
    for (int k = 0; k < 4; ++k) state.add_one();
    client.check(client.api().cuModuleUnload(state.module));
    state.tiny = state.load("tiny_kernel", kPlain, &state.module);
  }
  std::printf("number %d\n", state.number_now());
}

void frees(const Client& client, int times) {
  ContextState state(client);
  const CUfunction slow = state.load("survey_take_long", kPlain);
  const int milliseconds = 10;
  for (int i = 0; i < times; ++i) {
    const Argument arguments[] = {state.number, milliseconds};
    state.launch(slow, state.stream, arguments);
    client.check(client.api().cuMemFree_v2(state.number));
    state.number = client.upload(std::vector<int>{i});
  }
  std::printf("number %d\n", state.number_now());
}

void destroys_streams(const Client& client, int times) {
  ContextState state(client);
  const CUfunction slow = state.load("survey_take_long", kPlain);
  const int milliseconds = 10;
  const Argument arguments[] = {state.number, milliseconds};
  for (int i = 0; i < times; ++i) {
    state.launch(slow, state.stream, arguments);
    client.wait_for_all();
    state.add_one();
    client.check(client.api().cuStreamDestroy_v2(state.stream));
    client.check(client.api().cuStreamCreate(&state.stream, kStreamNonBlocking));
    client.wait_for_all();
  }
  std::printf("number %d\n", state.number_now());
}

// Launches that the driver refuses, between others.
void fails(const Client& client, int times) {
  const ContextState state(client);
  CUdeviceptr number = state.number;
  int addend = 1;
  void* pointers[] = {&number, &addend};
  const auto launch = [&](CUfunction function, unsigned threads, unsigned shared, CUstream stream, void** parameters) {
    std::printf("%d ",
                client.api().cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, stream, parameters, nullptr));
  };
  for (int i = 0; i < times; ++i) {
    state.add_one();
    launch(state.tiny, 2048, 0, state.stream, pointers);
    launch(state.tiny, 1, 1 << 30, state.stream, pointers);
    launch(state.tiny, 1, 0, state.stream, nullptr);
    launch(reinterpret_cast<CUfunction>(&number), 1, 0, state.stream, pointers);
    launch(nullptr, 1, 0, state.stream, pointers);
    launch(state.tiny, 1, 0, reinterpret_cast<CUstream>(&number), pointers);
  }
  std::printf("number %d\n", state.number_now());
}

// A launch that reaches memory which is not there, and what follows.
void faults(const Client& client, int after) {
  const ContextState state(client);
  const Api& api = client.api();
  for (int i = 0; i < after; ++i) state.add_one();
  client.wait_for_all();
  CUdeviceptr wrong = 4096, memory = 0;
  int addend = 1, number = 0;
  void* pointers[] = {&wrong, &addend};
  std::printf("launch %d\n", api.cuLaunchKernel(state.tiny, 1, 1, 1, 1, 1, 1, 0, state.stream, pointers, nullptr));
  std::printf("wait %d\n", api.cuStreamSynchronize(state.stream));
  std::printf("launch %d\n", api.cuLaunchKernel(state.tiny, 1, 1, 1, 1, 1, 1, 0, state.stream, pointers, nullptr));
  std::printf("allocate %d\n", api.cuMemAlloc_v2(&memory, 100));
  std::printf("copy %d\n", api.cuMemcpyDtoH_v2(&number, state.number, sizeof number));
  std::printf("free %d\n", api.cuMemFree_v2(state.number));
  std::printf("synchronize %d\n", api.cuCtxSynchronize_v2(nullptr));
}

void launches_in_threads(const Client& client, int times) {
  const ContextState state(client);
  std::vector<std::thread> threads;
  std::vector<int> results(4);
  for (int& result : results) {
    threads.emplace_back([&client, &state, &result, times] {
      client.enter_thread();
      CUstream stream = nullptr;
      client.check(client.api().cuStreamCreate(&stream, kStreamNonBlocking));
      const int addend = 3;
      for (int i = 0; i < times; ++i) {
        const CUdeviceptr number = client.upload(std::vector<int>{i});
        const Argument arguments[] = {number, addend};
        for (int k = 0; k < 3; ++k) state.launch(state.tiny, stream, arguments);
        client.check(client.api().cuStreamSynchronize(stream));
        result += client.download<int>(number, 1)[0];
        client.check(client.api().cuMemFree_v2(number));
      }
      client.check(client.api().cuStreamDestroy_v2(stream));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int result : results) std::printf("%d ", result);
  std::printf("\n");
}

// As a plug-in does that is unloaded: the driver may stay.
void lets_the_driver_go(const Client& client, int) {
  launches(client, 4);
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  for (int i = 0; i < 8; ++i) dlclose(library);
}

using Act = void (*)(const Client&, int);
const std::map<std::string, Act, std::less<>> kActs = {
    {"launches", launches},
    {"runs_on", runs_on},
    {"closes_descriptors", closes_descriptors},
    {"limits_file_sizes", limits_file_sizes},
    {"vforks", vforks},
    {"forks", forks},
    {"exits_beside_a_thread", exits_beside_a_thread},
    {"exits_from_a_handler", exits_from_a_handler},
    {"ends_from_a_handler", ends_from_a_handler},
    {"raises", raises},
    {"resets", resets},
    {"unloads", unloads},
    {"frees", frees},
    {"destroys_streams", destroys_streams},
    {"fails", fails},
    {"faults", faults},
    {"launches_in_threads", launches_in_threads},
    {"lets_the_driver_go", lets_the_driver_go},
    {"awaits_the_host", awaits_the_host},
    {"awaits_a_stream", awaits_a_stream},
    {"launches_beside_a_host_function", launches_beside_a_host_function},
    {"launches_beside_a_value", launches_beside_a_value},
    {"launches_beside_an_event", launches_beside_an_event},
    {"takes_long", takes_long},
    {"writes_beside_a_long_launch", writes_beside_a_long_launch},
    {"alternates_devices", alternates_devices},
    {"reaches_the_other_device", reaches_the_other_device},
    {"launches_a_graph_of_two_contexts", launches_a_graph_of_two_contexts},
    {"exports_memory", exports_memory},
    {"imports_memory", imports_memory},
    {"makes_contexts", makes_contexts}};

void act(const Client& client, const std::string& word) {
  const size_t colon = word.find(':');
  const int number = colon == word.npos ? 1 : std::stoi(word.substr(colon + 1));
  kActs.at(word.substr(0, colon))(client, number);
}

}  // namespace
}  // namespace msda::stand_in

int main(int count, char** words) {
  using namespace msda::stand_in;
  try {
    const Client client(Via::kDlsym);
    for (int i = 1; i < count; ++i) act(client, words[i]);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
