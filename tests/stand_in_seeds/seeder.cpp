// Sets seeds and makes recorded calls in the order of its arguments, and prints what came of each: the generator's
// state, or its first number. So two runs can be compared, one of them recorded.
//
//   stand_in_seeder ACTION[=SEED[*TIMES]]...
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "kernels/msda.h"

namespace {

// As Python loads an extension module.
template <class Function>
Function* look_up(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  void* function = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return reinterpret_cast<Function*>(function);
}

uint64_t torch(const char* library, uint64_t seed) {
  return look_up<uint64_t(uint64_t)>(library, "stand_in_manual_seed")(seed);
}

uint64_t curand_by_dlsym(uint64_t seed) {
  unsigned long long generator = 0;
  auto* set = look_up<int(void*, unsigned long long)>("libcurand.so.10", "curandSetPseudoRandomGeneratorSeed");
  return set(&generator, seed) == 0 ? generator : 0;
}

uint64_t by_seed48(uint64_t seed) {
  unsigned short parts[] = {static_cast<unsigned short>(seed), static_cast<unsigned short>(seed >> 16),
                            static_cast<unsigned short>(seed >> 32)};
  unsigned short* before = seed48(parts);
  const uint64_t old = before[0] | uint64_t{before[1]} << 16 | uint64_t{before[2]} << 32;
  return old ^ static_cast<uint64_t>(lrand48()) << 1;
}

uint64_t by_initstate(uint64_t seed) {
  static char state[64];
  if (initstate(static_cast<unsigned>(seed), state, 4) != nullptr || errno != EINVAL) return 0;  // too small
  return initstate(static_cast<unsigned>(seed), state, sizeof state) != nullptr ? static_cast<uint64_t>(random()) : 0;
}

// A backward call of one sample, whose inputs are made of `number`.
uint64_t call(uint64_t number) {
  float value[] = {static_cast<float>(number), 2, 3, 4}, location[] = {0.4F, 0.6F}, weight[] = {1}, grad[] = {1};
  float grad_value[4], grad_location[2], grad_weight[1];
  int64_t sizes[] = {2, 2};
  const int64_t of_value[] = {1, 4, 1, 1}, of_sizes[] = {1, 2}, of_location[] = {1, 1, 1, 1, 1, 2};
  const auto tensor = [](void* data, const int64_t* shape, int rank, msda_dtype type = MSDA_FLOAT32) {
    return msda_contiguous(data, type, rank, shape);
  };
  msda_call problem{};
  problem.dialect = MSDA_DEFORMABLE_DETR;
  problem.value = tensor(value, of_value, 4);
  problem.spatial_shapes = tensor(sizes, of_sizes, 2, MSDA_INT64);
  problem.sampling_locations = tensor(location, of_location, 6);
  problem.attention_weights = tensor(weight, of_location, 5);
  const int64_t of_grad[] = {1, 1, 1, 1};
  const msda_tensor grad_output = tensor(grad, of_grad, 4), to_value = tensor(grad_value, of_value, 4),
                    to_location = tensor(grad_location, of_location, 6),
                    to_weight = tensor(grad_weight, of_location, 5);
  const msda_options options{};
  const msda_status status = msda_backward(&problem, &grad_output, &options, &to_value, &to_location, &to_weight);
  if (status != MSDA_OK) std::fprintf(stderr, "%s\n", msda_last_error());
  return static_cast<uint64_t>(grad_weight[0] * 1000);
}

const std::map<std::string, uint64_t (*)(uint64_t)> kActions = {
    {"srand", [](uint64_t seed) { return srand(static_cast<unsigned>(seed)), static_cast<uint64_t>(rand()); }},
    {"srandom", [](uint64_t seed) { return srandom(static_cast<unsigned>(seed)), static_cast<uint64_t>(random()); }},
    {"srand48", [](uint64_t seed) { return srand48(static_cast<long>(seed)), static_cast<uint64_t>(lrand48()); }},
    {"seed48", by_seed48},
    {"initstate", by_initstate},
    {"looked_up_srand",
     [](uint64_t seed) {
       look_up<void(unsigned)>("libc.so.6", "srand")(static_cast<unsigned>(seed));
       return static_cast<uint64_t>(rand());
     }},
    {"torch_cpu", [](uint64_t seed) { return torch("libtorch_cpu.so", seed); }},
    {"torch_cuda", [](uint64_t seed) { return torch("libtorch_cuda.so", seed); }},
    {"other_torch", [](uint64_t seed) { return torch("libother_torch.so", seed); }},
    {"curand", curand_by_dlsym},
    {"linked_curand",
     [](uint64_t seed) {
       return static_cast<uint64_t>(
           look_up<unsigned long long(unsigned long long)>("libcurand_user.so", "stand_in_seed_curand")(seed));
     }},
    {"call", call},
    // The rest happens in a child; the parent only waits for it.
    {"fork",
     [](uint64_t) {
       const pid_t child = fork();
       if (child == 0) return uint64_t{0};
       int status = 0;
       waitpid(child, &status, 0);
       std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
     }},
};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('='), star = argument.find('*');
    const auto action = kActions.find(argument.substr(0, equals));
    if (action == kActions.end()) {
      std::fprintf(stderr, "stand_in_seeder: what is %s?\n", argv[i]);
      return 2;
    }
    const uint64_t seed = equals == std::string::npos ? 0 : std::stoull(argument.substr(equals + 1));
    const uint64_t times = star == std::string::npos ? 1 : std::stoull(argument.substr(star + 1));
    uint64_t result = 0;
    errno = 4711;
    for (uint64_t n = 0; n < times; ++n) result = action->second(seed + n);
    std::printf("%s %llu %d\n", argv[i], static_cast<unsigned long long>(result), errno);
    std::fflush(stdout);
  }
  return 0;
}
