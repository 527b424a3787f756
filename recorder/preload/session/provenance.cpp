#include "recorder/preload/session/provenance.h"

#include <fcntl.h>
#include <link.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <utility>

#include "recorder/preload/session/config.h"
#include "recorder/text/environment.h"
#include "recorder/text/secrets.h"

namespace msda::record {
namespace {

// Only these variables are recorded, by their exact names, because an environment also holds secrets. They decide which
// code runs, on which device, in which order and precision.
constexpr const char* kNames[] = {"CUBLASLT_WORKSPACE_SIZE",
                                  "CUBLAS_WORKSPACE_CONFIG",
                                  "CUDA_CACHE_DISABLE",
                                  "CUDA_DEVICE_MAX_CONNECTIONS",
                                  "CUDA_DEVICE_ORDER",
                                  "CUDA_FORCE_PTX_JIT",
                                  "CUDA_HOME",
                                  "CUDA_INJECTION64_PATH",
                                  "CUDA_LAUNCH_BLOCKING",
                                  "CUDA_MODULE_LOADING",
                                  "CUDA_PATH",
                                  "CUDA_VISIBLE_DEVICES",
                                  "CUDNN_DETERMINISTIC",
                                  "GOMP_CPU_AFFINITY",
                                  "KMP_AFFINITY",
                                  "KMP_BLOCKTIME",
                                  "KMP_DETERMINISTIC_REDUCTION",
                                  "LD_LIBRARY_PATH",
                                  "LD_PRELOAD",
                                  "LOCAL_RANK",
                                  "MKL_CBWR",
                                  "MKL_DYNAMIC",
                                  "MKL_ENABLE_INSTRUCTIONS",
                                  "MKL_NUM_THREADS",
                                  "MSDA_CPU_ISA",
                                  "NCCL_ALGO",
                                  "NCCL_NVLS_ENABLE",
                                  "NCCL_PROTO",
                                  "NVIDIA_TF32_OVERRIDE",
                                  "NVIDIA_VISIBLE_DEVICES",
                                  "OMP_DYNAMIC",
                                  "OMP_NUM_THREADS",
                                  "OMP_PROC_BIND",
                                  "OMP_SCHEDULE",
                                  "OPENBLAS_CORETYPE",
                                  "OPENBLAS_NUM_THREADS",
                                  "PYTEST_XDIST_WORKER",
                                  "PYTHONHASHSEED",
                                  "PYTORCH_ALLOC_CONF",
                                  "PYTORCH_CUDA_ALLOC_CONF",
                                  "PYTORCH_NVFUSER_DISABLE",
                                  "PYTORCH_TUNABLEOP_ENABLED",
                                  "RANK",
                                  "SLURM_PROCID",
                                  "TF32_OVERRIDE",
                                  "TORCHDYNAMO_DISABLE",
                                  "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                  "TORCH_CUDNN_V8_API_DISABLED",
                                  "TORCH_NCCL_BLOCKING_WAIT",
                                  "TRITON_ALWAYS_COMPILE",
                                  "TRITON_CACHE_DIR",
                                  "TRITON_DEBUG",
                                  "TRITON_DISABLE_LINE_INFO",
                                  "TRITON_F32_DEFAULT",
                                  "TRITON_INTERPRET",
                                  "TRITON_PRINT_AUTOTUNING",
                                  "WORLD_SIZE"};
// The libraries whose versions change bits.
constexpr const char* kLibraries[] = {"libtorch",  "libcudart", "libcuda.", "libcudnn.", "libcublas.",
                                      "libtriton", "libcupti",  "libmsda",  "libnccl",   "libpython"};

std::vector<std::string> arguments() {
  std::vector<std::string> argv;
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return argv;
  std::string text(64 * 1024, 0);
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    argv.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return argv;
}

std::map<std::string, std::string> recorded_environment(const std::vector<std::string>& asked_for) {
  std::map<std::string, std::string> environment;
  const auto take = [&](const std::string& name) {
    const char* value = getenv(name.c_str());
    if (value == nullptr || text::names_a_secret(name)) return;
    if (auto kept = text::without_recorder(name, value)) environment[name] = std::move(*kept);
  };
  for (const char* name : kNames) take(name);
  for (const std::string& name : asked_for) take(name);
  return environment;
}

int add_library(dl_phdr_info* info, size_t, void* data) {
  const char* path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  const std::string name = slash != nullptr ? slash + 1 : path;
  for (const char* known : kLibraries) {
    if (!name.starts_with(known)) continue;
    // The link's target has the version: libcuda.so.1 is libcuda.so.580.159.
    char* resolved = realpath(path, nullptr);
    (*static_cast<std::map<std::string, std::string>*>(data))[name] = resolved != nullptr ? resolved : path;
    std::free(resolved);
  }
  return 0;
}

}  // namespace

// Uses no gmtime_r: it takes a lock of libc's, which stays locked for ever in a child that was forked meanwhile.
std::string iso_8601(const timespec& time) {
  using namespace std::chrono;
  const sys_seconds second{seconds{time.tv_sec}};
  const auto day = floor<days>(second);
  const year_month_day date{day};
  const hh_mm_ss clock{second - day};
  char text[40];
  snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
           static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
           static_cast<int>(clock.seconds().count()), static_cast<int>(time.tv_nsec / 1000000) % 1000);
  return text;
}

std::string now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return iso_8601(time);
}

spool::Run run_of_this_process() {
  spool::Run run;
  run.argv = arguments();
  run.environment = recorded_environment(config().variables);
  dl_iterate_phdr(add_library, &run.libraries);
  utsname machine{};
  if (uname(&machine) == 0) {
    run.facts["host"] = machine.nodename;
    run.facts["system"] = std::string(machine.sysname) + " " + machine.release + " " + machine.machine;
  }
  run.facts["process"] = std::to_string(getpid());
  return run;
}

std::vector<spool::Seed> seeds_of_the_environment() {
  std::vector<spool::Seed> seeds;
  const char* hash_seed = getenv("PYTHONHASHSEED");
  if (hash_seed != nullptr && *hash_seed >= '0' && *hash_seed <= '9') {
    seeds.push_back({now(), "environment", std::strtoull(hash_seed, nullptr, 10)});
  }
  return seeds;
}

}  // namespace msda::record
