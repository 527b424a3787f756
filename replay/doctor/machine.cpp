#include "replay/doctor/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kernels/cuda_version.h"
#include "recorder/adapters/user.h"
#include "recorder/device/cupti_libraries.h"
#include "recorder/spool/output.h"
#include "recorder/text/numbers.h"
#include "recorder/text/words.h"
#include "replay/gpu/driver.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// Returns the major number at a library's end: 13 of libcupti.so.13.
int major_of(const std::string& library) {
  const std::string number = library.substr(library.rfind('.') + 1);
  return static_cast<int>(text::parse_number<int64_t>(number).value_or(0));
}

std::string path_of(void* library) {
  void* symbol = dlsym(library, "cuptiSubscribe");
  Dl_info info{};
  return symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string in_gib(uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1 << 30));
}

// A folder that must be writable, with room; problems are added to the check.
void check_folder(Check& check, const std::string& what, const std::string& folder) {
  constexpr uint64_t kLittle = 1 << 30;
  const auto worse = [&](Health health, const std::string& remedy) {
    if (health <= check.health) return;
    check.health = health;
    check.remedy = remedy;
  };
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    check.details.push_back(fmt::format("{} {}: cannot write into it: {}", what, folder, std::strerror(errno)));
    worse(Health::kError, fmt::format("make {} writable, or set TMPDIR or -o to another folder", folder));
    return;
  }
  const auto free = spool::free_bytes(folder);
  check.details.push_back(fmt::format("{} {}: {} free", what, folder, free ? in_gib(*free) : "unknown space"));
  if (free && *free < kLittle) {
    worse(Health::kWarning, "make room, or record less: --keep last:2, --digest-only, --max-bytes");
  }
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit); }

}  // namespace

Check check_driver(int& version) {
  Check check{.name = "driver"};
  version = 0;
  try {
    const gpu::DriverFacts facts = gpu::driver_facts();
    version = facts.version;
    check.summary = fmt::format("CUDA driver for CUDA {}, {}", cuda_version(version),
                                text::counted(std::ssize(facts.devices), "GPU"));
    for (size_t i = 0; i < facts.devices.size(); ++i) {
      const auto& device = facts.devices[i];
      check.details.push_back(fmt::format("cuda:{}: {}, sm_{}", i, device.name, device.architecture));
    }
    if (facts.devices.empty()) {
      check.health = Health::kWarning;
      check.remedy = "if this machine has a GPU, look at CUDA_VISIBLE_DEVICES and nvidia-smi";
    }
  } catch (const gpu::Failure& e) {
    check.health = Health::kWarning;
    check.summary = e.what();
    check.remedy =
        "kernels can be recorded, and their machine code relaunched, on a machine with an NVIDIA GPU and a driver from "
        "CUDA 12.4 on; everything else works here";
  }
  return check;
}

Check check_cupti(int driver_version) {
  Check check{.name = "cupti"};
  for (const std::string& path : record::cupti::library_candidates()) {
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    const std::string found = path_of(library);
    check.summary = found.empty() ? path : found;
    const int major = major_of(path);
    if (found.empty()) {
      check.health = Health::kWarning;
      check.summary += " has no cuptiSubscribe";
      check.remedy = "put the folder of a whole CUPTI into LD_LIBRARY_PATH";
    } else if (driver_version > 0 && major > driver_version / 1000) {
      check.health = Health::kWarning;
      check.summary += fmt::format(" is of CUDA {}, newer than the driver's {}", major, cuda_version(driver_version));
      check.remedy = "put the folder of the driver's CUPTI into LD_LIBRARY_PATH, or update the driver";
    }
    return check;
  }
  check.health = Health::kWarning;
  check.summary = "no libcupti.so.13 or libcupti.so.12 is found";
  check.remedy =
      "only --hook cupti needs it, and machine code of modules that a program holds compressed; PyTorch brings its "
      "own, "
      "which the recorder uses. Otherwise put its folder into LD_LIBRARY_PATH";
  return check;
}

Check check_kernels(int driver_version) {
  const std::string built = msda_cuda_version();
  Check check{.name = "libmsda", .summary = "kernels for GPUs, built with CUDA " + built};
  if (built.empty()) {
    check.summary = "no kernels for GPUs: calls are replayed on the CPU";
    if (driver_version > 0) check.remedy = "for replays on the GPU, install the wheel with kernels, or build with nvcc";
    return check;
  }
  // A driver runs what was built with any minor version of its CUDA.
  const auto major = text::parse_number<int64_t>(built.substr(0, built.find('.'))).value_or(0);
  if (driver_version > 0 && major > driver_version / 1000) {
    check.health = Health::kWarning;
    check.summary += fmt::format(", newer than the driver's {}", cuda_version(driver_version));
    check.remedy = "update the driver, or build with an older nvcc, for replays on the GPU";
  }
  return check;
}

Check check_disk() {
  Check check{.name = "disk", .summary = "room for captures and temporary files"};
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  std::error_code gone;
  const fs::path current = fs::current_path(gone);
  if (gone) {
    check.health = Health::kError;
    check.details.push_back(fmt::format("current folder: {}", gone.message()));
    check.remedy = "change to a folder that exists";
  } else {
    check_folder(check, "current folder", current.string());
  }
  if (error) {
    check.health = Health::kError;
    check.details.push_back(fmt::format("temporary files: TMPDIR is no folder: {}", error.message()));
    check.remedy = "set TMPDIR to a folder that you can write to";
  } else {
    check_folder(check, "temporary files", temporary.string());
  }
  if (check.health != Health::kOk) check.summary = "too little room, or no permission to write";
  return check;
}

Check check_limits() {
  Check check{.name = "limits", .summary = "limits of this shell and its programs"};
  struct Limit {
    const char* name;
    const char* option;  // of ulimit
    rlim_t unit;         // of that, in bash
    decltype(RLIMIT_NOFILE) resource;
    rlim_t least;  // below it recording suffers
  };
  constexpr rlim_t kMega = 1 << 20;
  const Limit limits[] = {{"open files", "-n", 1, RLIMIT_NOFILE, 256},
                          {"size of a file", "-f", 1024, RLIMIT_FSIZE, 1024 * kMega},
                          {"address space", "-v", 1024, RLIMIT_AS, 8192 * kMega},
                          {"locked memory", "-l", 1024, RLIMIT_MEMLOCK, 0},
                          {"core file", "-c", 1024, RLIMIT_CORE, 0}};
  std::vector<std::string> low, remedies;
  for (const Limit& limit : limits) {
    rlimit now{};
    if (getrlimit(limit.resource, &now) != 0) continue;
    check.details.push_back(
        fmt::format("{}{}: {}", limit.name, limit.unit > 1 ? ", bytes" : "", limit_text(now.rlim_cur)));
    if (now.rlim_cur >= limit.least) continue;
    low.emplace_back(limit.name);
    remedies.push_back(fmt::format("ulimit {} unlimited, or at least {}{}", limit.option, limit.least / limit.unit,
                                   limit.unit > 1 ? " (KiB, as bash counts)" : ""));
  }
  if (low.empty()) return check;
  check.health = Health::kWarning;
  check.summary = fmt::format("the {} on {} {} low", text::plural(std::ssize(low), "limit"), fmt::join(low, " and "),
                              low.size() > 1 ? "are" : "is");
  check.remedy = fmt::format("{}", fmt::join(remedies, "; "));
  return check;
}

std::vector<Check> check_adapters(const std::vector<std::string>& asked) {
  std::vector<Check> checks;
  for (const std::string& path : asked) {
    Check check{.name = "adapter"};
    try {
      std::string names;
      for (const auto& adapter : adapters::read_user_adapters(path)) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", adapter->name());
      }
      check.summary = fmt::format("{}: {}", path, names);
    } catch (const adapters::BadAdapterFile& e) {
      check.health = Health::kError;
      check.summary = e.what();
      check.remedy = "correct the file; its format: docs/user-adapters.md";
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace msda::replay
