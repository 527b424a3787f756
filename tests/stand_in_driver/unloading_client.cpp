// usage: stand_in_unloading_client MODE. Launches kernels whose code, memory or context goes away in between, and
// prints for each launch the kernel's name and the number that its value holds: what a recorder has to report.
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/stand_in_driver/client.h"

namespace msda::stand_in {
namespace {

constexpr char kShm[] =
    "_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1IfLj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_";
constexpr char kGm[] = "_Z34ms_deformable_col2im_gpu_kernel_gmIfEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_";
constexpr char kTiny[] = "tiny_kernel";
constexpr int B = 1, Q = 5, M = 1, D = 8, L = 1, P = 2, S = 12;

// The same buffers for all its launches, so that only the kernel's handle distinguishes them.
class Problem {
 public:
  explicit Problem(const Client& client) : client_(client) {}

  // The number is what the value holds.
  void launch(CUfunction function, const char* name, float number) {
    std::printf("%s %g\n", name, static_cast<double>(number));
    client_.check(
        client_.api().cuMemcpyHtoD_v2(value, std::vector<float>(S * D, number).data(), S * D * sizeof(float)));
    launch_again(function);
    client_.wait_for_all();
  }
  void launch_again(CUfunction function) const {
    const int n = B * Q * M * D;
    const Argument arguments[] = {n, output, value, shapes, starts, locations,  weights,        B,           S,
                                  M, D,      L,     Q,      P,      grad_value, grad_locations, grad_weights};
    client_.check(client_.api().cuMemsetD8Async(grad_value, 0, S * D * sizeof(float), nullptr));
    client_.launch({}, function, {B * Q * M}, {D}, nullptr, arguments);
  }
  void free() const {
    for (const CUdeviceptr memory : {value, shapes, starts, locations, weights, output}) {
      client_.check(client_.api().cuMemFree_v2(memory));
    }
  }

 private:
  CUdeviceptr floats(size_t count, float number) const { return client_.upload(std::vector<float>(count, number)); }

  const Client& client_;
  const CUdeviceptr value = floats(S * D, 0), output = floats(Q * D, 1), locations = floats(4 * Q, 0.4f);
  const CUdeviceptr weights = floats(2 * Q, 0.5f), grad_value = floats(S * D, 0), grad_locations = floats(4 * Q, 0);
  const CUdeviceptr grad_weights = floats(2 * Q, 0), shapes = client_.upload(std::vector<int64_t>{3, 4});
  const CUdeviceptr starts = client_.upload(std::vector<int64_t>{0});
};

struct Loaded {
  CUmodule module;
  CUfunction function;
};

Loaded load(const Client& client, const std::string& name) {
  Loaded loaded{};
  client.check(client.api().cuModuleLoadData(&loaded.module, ("stand-in\n" + name + "\n").c_str()));
  client.check(client.api().cuModuleGetFunction(&loaded.function, loaded.module, name.c_str()));
  return loaded;
}

// A module whose function has this handle, which another function had before.
Loaded load_as(const Client& client, const std::string& name, CUfunction handle) {
  const Loaded loaded = load(client, name);
  if (loaded.function != handle) throw std::runtime_error("the handle does not come again");
  return loaded;
}

void in_thread(const Client& client, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      client.enter_thread();
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

// Another thread unloads the code and loads other code.
void reloads(const Client& client) {
  Problem problem(client);
  Loaded loaded = load(client, kShm);
  for (int i = 0; i < 6; ++i) {
    const char* const name = i % 2 == 0 ? kShm : kGm;
    problem.launch(loaded.function, name, static_cast<float>(i / 2));
    in_thread(client, [&] {
      client.check(client.api().cuModuleUnload(loaded.module));
      loaded = load_as(client, i % 2 == 0 ? kGm : kShm, loaded.function);
    });
  }
}

// A function that is not to be recorded had the handle, as many unloads ago as 16 bits count.
void unloads_65536_times(const Client& client) {
  Problem problem(client);
  const Loaded first = load(client, kTiny);
  const CUdeviceptr sum = client.upload(std::vector<int>{0});
  const int addend = 1;
  const Argument arguments[] = {sum, addend};
  client.launch({}, first.function, {}, {}, nullptr, arguments);
  client.check(client.api().cuModuleUnload(first.module));
  const Loaded last = load_as(client, kShm, first.function);
  const Loaded loaded = load(client, kGm);
  client.check(client.api().cuModuleUnload(loaded.module));
  for (int i = 2; i < 65536; ++i) client.api().cuModuleUnload(loaded.module);  // refused, and no less an unload
  problem.launch(last.function, kShm, 1);
}

// While cuCtxDestroy has not returned, another context gets the handle.
const std::function<void()>* when_gone = nullptr;
void destroys_a_context(const Client& client) {
  const Api& api = client.api();
  Problem problem(client);
  CUcontext context = nullptr;
  client.check(api.cuCtxCreate_v2(&context, 0, 0));
  const Loaded first = load(client, kShm);
  problem.launch(first.function, kShm, 1);
  const std::function<void()> next = [&] {
    client.enter_thread();
    problem.launch(load_as(client, kGm, first.function).function, kGm, 1);
  };
  when_gone = &next;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto set =
      reinterpret_cast<decltype(&stand_in_when_code_is_gone)>(dlsym(library, "stand_in_when_code_is_gone"));
  set([] { (*when_gone)(); });
  client.check(api.cuCtxDestroy_v2(context));
}

// Launches on recorded inputs, while the program takes times.
void measure(const Client& client, const Problem& problem, CUfunction function, int launches) {
  CUevent event = nullptr;
  client.check(client.api().cuEventCreate(&event, 0));
  for (int i = 0; i < launches; ++i) {
    client.check(client.api().cuEventRecord(event, nullptr));
    problem.launch_again(function);
  }
  client.check(client.api().cuEventDestroy_v2(event));
}

// A thread measures launches; their memory is freed before it launches anything else.
void frees_what_was_measured(const Client& client) {
  const Loaded loaded = load(client, kShm);
  Problem first(client), second(client);
  first.launch(loaded.function, kShm, 1);
  measure(client, first, loaded.function, 3);
  in_thread(client, [&] {
    client.wait_for_all();
    first.free();
  });
  second.launch(loaded.function, kShm, 2);
}

// Without waiting for what it measured, and launches on.
void resets_the_device(const Client& client) {
  Problem problem(client);
  Loaded loaded = load(client, kShm);
  problem.launch(loaded.function, kShm, 1);
  measure(client, problem, loaded.function, 3);
  client.check(client.api().cuDevicePrimaryCtxReset_v2(0));
  loaded = load(client, kGm);
  Problem(client).launch(loaded.function, kGm, 2);
}

}  // namespace
}  // namespace msda::stand_in

int main(int count, char** values) {
  using namespace msda::stand_in;
  const std::map<std::string, void (*)(const Client&)> modes = {{"reloads", reloads},
                                                                {"unloads_65536_times", unloads_65536_times},
                                                                {"destroys_a_context", destroys_a_context},
                                                                {"frees_what_was_measured", frees_what_was_measured},
                                                                {"resets_the_device", resets_the_device}};
  const auto mode = count > 1 ? modes.find(values[1]) : modes.end();
  if (mode == modes.end()) return 99;
  try {
    mode->second(Client(Via::kDlsym));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
