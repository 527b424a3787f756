#include "recorder/preload/session/provenance.h"

#include <fcntl.h>
#include <link.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "recorder/preload/driver/driver_api.h"

extern char** environ;

namespace msda::record {
namespace {

// Only these leave the process: an environment holds secrets too.
constexpr const char* kPrefixes[] = {"CUDA_", "CUBLAS_", "CUDNN_", "PYTORCH_", "TORCH_",    "TRITON_", "NVIDIA_",
                                     "NCCL_", "OMP_",    "MKL_",   "KMP_",     "OPENBLAS_", "MSDA_",   "SLURM_PROCID"};
constexpr const char* kNames[] = {
    "PYTHONHASHSEED",      "RANK",       "LOCAL_RANK",   "WORLD_SIZE", "PYTEST_XDIST_WORKER",
    "PYTEST_CURRENT_TEST", "LD_PRELOAD", "TF32_OVERRIDE"};
// Of the libraries whose versions change bits.
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

int add_library(dl_phdr_info* info, size_t, void* data) {
  const char* path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  const std::string name = slash != nullptr ? slash + 1 : path;
  for (const char* known : kLibraries) {
    if (!name.starts_with(known)) continue;
    // The file behind the name tells the version: libcuda.so.1 is libcuda.so.580.159.
    char* resolved = realpath(path, nullptr);
    (*static_cast<std::map<std::string, std::string>*>(data))[name] = resolved != nullptr ? resolved : path;
    std::free(resolved);
  }
  return 0;
}

// Of the device that the calling thread works on, if it works on one.
void add_device(std::map<std::string, std::string>& facts) {
  const cuda::Driver& driver = cuda::driver();
  int device = 0, version = 0;
  char name[256] = {};
  if (!driver.complete || driver.current_device(&device) != cuda::kSuccess) return;
  if (driver.device_name(name, sizeof name - 1, device) == cuda::kSuccess) facts["gpu"] = name;
  if (driver.driver_version(&version) == cuda::kSuccess) {
    facts["cuda"] = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
}

}  // namespace

std::string iso_8601(const timespec& time) {
  tm utc{};
  gmtime_r(&time.tv_sec, &utc);
  char text[32], millis[8];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(millis, sizeof millis, ".%03dZ", static_cast<int>(time.tv_nsec / 1000000) % 1000);
  return std::string(text) + millis;
}

std::string now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return iso_8601(time);
}

spool::Run run_of_this_process() {
  spool::Run run;
  run.argv = arguments();
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('='));
    bool take = false;
    for (const char* prefix : kPrefixes) take = take || name.starts_with(prefix);
    for (const char* exact : kNames) take = take || name == exact;
    if (take && name.size() < text.size()) run.environment[name] = text.substr(name.size() + 1);
  }
  dl_iterate_phdr(add_library, &run.libraries);
  utsname machine{};
  if (uname(&machine) == 0) {
    run.facts["host"] = machine.nodename;
    run.facts["system"] = std::string(machine.sysname) + " " + machine.release + " " + machine.machine;
  }
  add_device(run.facts);
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
